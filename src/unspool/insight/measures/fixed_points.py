"""Fixed and slow points of each layer: where its state stays, or nearly stays, while the input is held at its mean.

From many starts, ½‖F(s) − s‖² is minimized by damped Newton steps (Levenberg and Marquardt). The eigenvalues of the
Jacobian at a point say what happens near it: if all are inside the unit circle, the state returns to it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from unspool.errors import ArgumentError
from unspool.insight.measures.jacobians import longest_rows
from unspool.insight.recorded_layer import RecordedLayer
from unspool.insight.recording import Recording

Array = NDArray[np.float64]
#: One step of n states, (n, states) → (n, states); differentiable.
Map = Callable[[Tensor], Tensor]

#: A point is fixed if its speed is at most this, for states of size 1.
FIXED = 1e-16
#: A point that is not fixed is slow if its speed is at most this.
SLOW = 1e-5
#: Points nearer to each other than this, for states of size 1, are one.
SAME = 1e-3
ITERATIONS = 60
#: Starts × width³ for a whole recording; above it there are fewer starts.
WORK = 4 * 512**3
FEWEST_STARTS = 4
#: At most this many sequences are drawn, and this many recorded states determine the plane.
TRAJECTORIES, STATES = 8, 4096


@dataclass(frozen=True, eq=False)
class Points:
    """The fixed and slow points of a map, the slowest first."""

    points: Array  # (n, states)
    speed: Array  # (n,): ½‖F(s) − s‖²
    eigenvalues: NDArray[np.complex128]  # (n, states), of the Jacobian there, the largest first
    stable: NDArray[np.bool_]  # (n,): all eigenvalues within the unit circle
    slow: NDArray[np.bool_]  # (n,): not fixed, but nearly


@dataclass(frozen=True, eq=False)
class PointSet(Points):
    """The points of one layer, and the plane of its states' first two principal components.

    A layer that never ran has no points, and its plane is NaN. For a single state the second axis is zero.
    """

    label: str
    axes: Array  # (2, states)
    centre: Array  # (states,): the mean state
    explained: Array  # (2,): fraction of the variance along each axis
    plane: Array  # (n, 2): the points there
    trajectories: Array  # (sequences, steps, 2): recorded states there, in the order of the run; NaN after the end


@dataclass(frozen=True, eq=False)
class FixedPoints:
    """The fixed and slow points of every layer."""

    sets: tuple[PointSet, ...]


def measure_fixed_points(recording: Recording, starts: int = 64) -> FixedPoints:
    """Points of every layer, searched from recorded states, with and without noise, and from the origin."""
    if starts < 1:
        raise ArgumentError.of("starts", starts, "is not a count", "Give an integer of at least 1")
    return FixedPoints(tuple(_of_layer(layer, starts, len(recording.layers)) for layer in recording.layers))


def _of_layer(layer: RecordedLayer, starts: int, layers: int) -> PointSet:
    states = layer.after[layer.live]
    width = states.shape[-1]
    count = min(starts, max(FEWEST_STARTS, WORK // (layers * max(width, 1) ** 3)))
    if len(states) and bool(states.isfinite().all()):
        mean = layer.x[layer.live].mean(0, keepdim=True)
        found = find_points(lambda s: layer.advance(mean.expand(len(s), -1), s), _starts(states, count))
    else:
        found = find_points(lambda s: s, states[:0])
    centre, axes, explained = _plane(states)
    rows = longest_rows(layer, TRAJECTORIES)
    ways = np.full((len(rows), len(layer.x), 2), np.nan)
    for number, row in enumerate(rows):
        way = layer.after[layer.live[:, row], row].numpy()
        ways[number, : len(way)] = ((way[::-1] if layer.reverse else way) - centre) @ axes.T
    return PointSet(
        **vars(found),
        label=layer.label,
        axes=axes,
        centre=centre,
        explained=explained,
        plane=(found.points - centre) @ axes.T,
        trajectories=ways,
    )


def _starts(states: Tensor, count: int) -> Tensor:
    """The origin, then recorded states, every second one with noise as large as the spread of the states."""
    generator = torch.Generator().manual_seed(0)
    chosen = states[torch.randint(len(states), (count,), generator=generator)]
    spread = (states - states.mean(0)).square().mean().sqrt()
    noise = torch.randn(chosen.shape, dtype=chosen.dtype, generator=generator) * spread
    noise[::2] = 0
    chosen = chosen + noise
    chosen[0] = 0
    return chosen


def find_points(step: Map, starts: Tensor) -> Points:
    """The fixed and slow points of any map, searched from these starts, (n, states)."""
    states, speed = _descend(step, starts.double())
    size = 1 + states.norm(dim=-1)
    keep = speed <= SLOW  # false for NaN
    order = [int(n) for n in torch.argsort(speed, stable=True) if keep[n]]
    chosen: list[int] = []
    for n in order:
        if all((states[n] - states[other]).norm() > SAME * size[n] for other in chosen):
            chosen.append(n)
    points = states[chosen]
    eigenvalues = torch.linalg.eigvals(_jacobians(step, points))
    eigenvalues = eigenvalues.gather(-1, torch.argsort(eigenvalues.abs(), dim=-1, descending=True))
    return Points(
        points.numpy(),
        speed[chosen].numpy(),
        eigenvalues.numpy(),
        (eigenvalues.abs() < 1).all(-1).numpy(),
        (speed[chosen] > FIXED * size[chosen].square()).numpy(),
    )


def _descend(step: Map, states: Tensor) -> tuple[Tensor, Tensor]:
    """From each start to a minimum of ½‖F(s) − s‖², and its value there."""
    states = states.clone()
    rest = step(states).detach() - states
    speed = rest.square().sum(-1) / 2
    damping = torch.full_like(speed, 1e-3)
    identity = torch.eye(states.shape[-1], dtype=states.dtype)
    for _ in range(ITERATIONS):
        arrived = speed <= 1e-12 * FIXED * (1 + states.square().sum(-1))
        going = (~arrived & (damping < 1e8) & speed.isfinite()).nonzero().squeeze(1)
        if not len(going):
            break
        slope = _jacobians(step, states[going]) - identity
        going, slope = going[fine := slope.isfinite().all(-1).all(-1)], slope[fine]
        square = slope.mT @ slope
        scale = square.diagonal(dim1=-2, dim2=-1).mean(-1).clamp(min=1e-300)
        damped = square + (damping[going] * scale)[:, None, None] * identity
        factor, failed = torch.linalg.cholesky_ex(damped)
        move = torch.cholesky_solve(-(slope.mT @ rest[going].unsqueeze(-1)), factor).squeeze(-1)
        move[failed > 0] = torch.nan  # not better, so that the damping grows
        trial = states[going] + move
        rest_there = step(trial).detach() - trial
        speed_there = rest_there.square().sum(-1) / 2
        better = speed_there < speed[going]  # false for NaN
        states[going[better]], rest[going[better]] = trial[better], rest_there[better]
        speed[going[better]] = speed_there[better]
        damping[going] *= torch.where(better, 0.1, 10.0)
        damping.clamp_(min=1e-15)
    return states, speed


def _jacobians(step: Map, states: Tensor) -> Tensor:
    """∂F/∂s at n states: (n, states, states)."""
    count, width = states.shape
    old = states.detach().requires_grad_()
    with torch.enable_grad():
        new = step(old)
    if not count or not new.requires_grad:
        return states.new_zeros(count, width, width)
    basis = torch.eye(width, dtype=states.dtype).unsqueeze(1).expand(width, count, width)
    (found,) = torch.autograd.grad(new, old, basis, is_grads_batched=True)
    return found.transpose(0, 1)


def _plane(states: Tensor) -> tuple[Array, Array, Array]:
    """Center, axes and fractions of variance of the first two principal components."""
    width = states.shape[-1]
    values = states[:: -(-len(states) // STATES) if len(states) else 1].numpy()
    if not len(values) or not np.isfinite(values).all():
        return np.full(width, np.nan), np.full((2, width), np.nan), np.full(2, np.nan)
    centre = values.mean(0)
    _, sizes, directions = np.linalg.svd(values - centre, full_matrices=False)
    axes, explained = np.zeros((2, width)), np.zeros(2)
    count = min(2, len(sizes))
    variance = np.square(sizes)
    axes[:count] = directions[:count]
    # The sign of an axis is arbitrary: make its largest part positive.
    axes *= np.where(axes[np.arange(2), np.abs(axes).argmax(1)] < 0, -1.0, 1.0)[:, None]
    if variance.sum() > 0:
        explained[:count] = variance[:count] / variance.sum()
    return centre, axes, explained
