"""Solver: from many starts at once to minima of ½‖F(s) − s‖², by damped Newton steps (Levenberg and Marquardt)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from unspool.insight.points.counted_map import CountedMap

ITERATIONS = 60
#: Products with the Jacobian of a wide state in one step at most, and the part of the gradient that may be left.
PRODUCTS, LEFT = 48, 1e-3
#: Where the residual is at most this, for states of size 1, a start has arrived.
ARRIVED = 1e-28
#: The damping of the first step, beside the mean of the squared slopes; no step is taken above the last.
FIRST, LAST = 1e-3, 1e8


@dataclass(frozen=True, eq=False)
class Ends:
    """Where starts arrived."""

    states: Tensor  # (n, states)
    residual: Tensor  # (n,): ½‖F(s) − s‖²
    whole: bool  # no start was left unfinished because the budget ran out


def residual_of(step: CountedMap, states: Tensor) -> tuple[Tensor, Tensor]:
    """F(s) − s, and half of its square."""
    rest = step(states) - states
    return rest, rest.square().sum(-1) / 2


def descend(step: CountedMap, starts: Tensor, iterations: int = ITERATIONS) -> Ends:
    """From each start to a minimum of ½‖F(s) − s‖².

    Args:
        step: the map.
        starts: (n, states).
        iterations: at most so many.

    Returns:
        The states that were reached.
    """
    states = starts.clone()
    rest, residual = residual_of(step, states)
    damping = torch.full_like(residual, FIRST)
    for _ in range(iterations):
        arrived = residual <= ARRIVED * (1 + states.square().sum(-1))
        going = (~arrived & (damping < LAST) & residual.isfinite()).nonzero().squeeze(1)
        if not len(going):
            break
        if not step.affords(len(going) * step.cost_of_move(states.shape[-1])):
            return Ends(states, residual, False)
        if step.can_do_without(states.shape[-1]):
            move = _moves_by_products(step, states[going], rest[going], damping[going])
        else:
            move, fine = _moves(step, states[going], rest[going], damping[going])
            going = going[fine]
        trial = states[going] + move
        rest_there, residual_there = residual_of(step, trial)
        better = residual_there < residual[going]  # false for NaN
        states[going[better]], rest[going[better]] = trial[better], rest_there[better]
        residual[going[better]] = residual_there[better]
        damping[going] *= torch.where(better, 0.1, 10.0)
        damping.clamp_(min=1e-15)
    return Ends(states, residual, True)


def _moves(step: CountedMap, states: Tensor, rest: Tensor, damping: Tensor) -> tuple[Tensor, Tensor]:
    """The next steps, of those states whose Jacobian is finite, and which states these are."""
    identity = torch.eye(states.shape[-1], dtype=states.dtype)
    slope = step.jacobians(states) - identity
    fine = slope.isfinite().all(-1).all(-1)
    damping[~fine] = LAST
    slope, rest = slope[fine], rest[fine]
    square = slope.mT @ slope
    scale = square.diagonal(dim1=-2, dim2=-1).mean(-1).clamp(min=1e-300)
    damped = square + (damping[fine] * scale)[:, None, None] * identity
    factor, failed = torch.linalg.cholesky_ex(damped)
    move = torch.cholesky_solve(-(slope.mT @ rest.unsqueeze(-1)), factor).squeeze(-1)
    move[failed > 0] = torch.nan  # not better, so that the damping grows
    return move, fine


def _moves_by_products(step: CountedMap, states: Tensor, rest: Tensor, damping: Tensor) -> Tensor:
    """The next steps by conjugate gradients, for states that are too wide for their Jacobians to be formed."""
    linear = step.linear(states)

    def slope(v: Tensor) -> Tensor:
        step.count(len(v))
        return linear.push(v) - v

    def transposed(v: Tensor) -> Tensor:
        step.count(len(v))
        return linear.pull(v) - v

    generator = torch.Generator().manual_seed(0)
    signs = torch.randint(0, 2, states.shape, generator=generator).to(states) * 2 - 1
    shift = (damping * slope(signs).square().mean(-1)).unsqueeze(-1)  # the mean of the squared slopes, by estimate
    left = -transposed(rest)
    move, direction, size = torch.zeros_like(states), left, left.square().sum(-1, keepdim=True)
    enough = LEFT**2 * size
    for _ in range(PRODUCTS // 2):
        if bool((size <= enough).all()) or not bool(size.isfinite().all()):
            break
        moved = transposed(slope(direction)) + shift * direction
        along = size / (direction * moved).sum(-1, keepdim=True).clamp(min=1e-300)
        move, left = move + along * direction, left - along * moved
        before, size = size, left.square().sum(-1, keepdim=True)
        direction = left + size / before.clamp(min=1e-300) * direction
    return move
