"""Continua: curves and surfaces of fixed or slow points, told apart from single points.

Where F(s) − s hardly changes in some direction, a walk along that direction is made. At each of its steps the state is
corrected in all other directions. If the walk stays slow over a distance as large as the states' spread, the points lie
on a continuum: a line attractor, a ring, a plane, or a manifold along which the state drifts slowly.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from unspool.insight.points.counted_map import CountedMap
from unspool.insight.points.solver import residual_of

Array = NDArray[np.float64]

#: A direction in which F(s) − s changes by at most this, per unit of length, is one of a continuum. Where it changes by
#: less than 1 in all directions, as in steps of a differential equation, the limit is beside the largest change.
MARGINAL = 0.02
#: The length of a step of the walk, of the least walk that counts, and how near a point on it is; beside the spread.
STRIDE, LEAST, NEAR = 0.1, 0.6, 0.05
#: Steps of the walk in each of both directions, and corrections at each.
WALK, CORRECTIONS = 40, 3
#: Points from which walks are tried.
TRIES = 4


@dataclass(frozen=True, eq=False)
class Continuum:
    """A curve, or one curve of a surface, of points that are fixed or slow.

    Attributes:
        path: states along it, (k, states); the walk ended because they were no longer slow, or went far enough.
        residual: ½‖F(s) − s‖² along it, (k,).
        dimension: 1 for a curve, 2 for a surface: directions in which the state hardly moves, the median along it.
        closed: whether the path came back to where it began: a ring.
        fixed: whether all of it is fixed to the precision of the search; else the state drifts along it.
        attracting: whether states beside it approach it.
        points: found points that are on it.
    """

    path: Array
    residual: Array
    dimension: int
    closed: bool
    fixed: bool
    attracting: bool
    points: int = 0

    @property
    def kind(self) -> str:
        """Such as `line attractor`, `ring attractor`, `plane attractor` or `slow manifold`."""
        if not self.fixed:
            return "slow manifold"
        shape = {1: "ring" if self.closed else "line", 2: "plane"}.get(self.dimension, "continuum")
        return f"{shape} attractor" if self.attracting else f"{shape} of unstable points"


class Limits(NamedTuple):
    """What counts as slow and as fixed, the spread of the states, and how far each of them may reach."""

    slow: float
    fixed: float
    spread: float
    reach: Tensor  # (states,)

    def inside(self, states: Tensor) -> Tensor:
        """Which states are within reach."""
        return (states.abs() <= self.reach).all(-1)


class _Place(NamedTuple):
    state: Tensor
    residual: float
    tangents: Tensor  # (directions, states), orthonormal: in which F(s) − s hardly changes
    radius: float  # the largest eigenvalue in the directions orthogonal to them


def find_continua(step: CountedMap, points: Tensor, limits: Limits) -> list[Continuum]:
    """Walk from the points, the first first, that are on no continuum yet.

    Args:
        step: the map.
        points: (n, states), fixed or slow.
        limits: what counts as slow.

    Returns:
        The continua.
    """
    found: list[Continuum] = []
    left = points
    for _ in range(TRIES):
        begin = _first_marginal(step, left, limits)
        if begin is None:
            return found
        number, place = begin
        one = _walk_both_ways(step, place, limits)
        left = left[number + 1 :]
        if one is not None:
            found.append(one)
            left = left[~on_continuum(step, one, left, limits)]
    return found


def on_continuum(step: CountedMap, one: Continuum, points: Tensor, limits: Limits) -> Tensor:
    """Which points, (n, states), lie on a continuum."""
    path = torch.from_numpy(one.path)
    ends = torch.cat([path, path[:1]]) if one.closed else path
    near = _distance(points, ends[:-1], ends[1:]) <= NEAR * limits.spread
    if one.dimension < 2:
        return near
    nearest = path[torch.cdist(points, path).argmin(-1)]
    found = [_connected(step, *ends, limits) for ends in zip(points, nearest, strict=True)]
    return near | torch.tensor(found, dtype=torch.bool)


def _connected(step: CountedMap, point: Tensor, other: Tensor, limits: Limits) -> bool:
    """Whether the way between two points is on a surface: each place is slow where it is, or close by."""
    allowed = NEAR * limits.spread + float((point - other).norm()) / 8
    for part in (0.25, 0.5, 0.75):
        state = part * point + (1 - part) * other
        place = _correct(step, state, limits)
        if place is None or len(place.tangents) < 2 or float((place.state - state).norm()) > allowed:
            return False
    return True


def _distance(points: Tensor, begins: Tensor, ends: Tensor) -> Tensor:
    """From each point to the nearest of some straight segments."""
    along = ends - begins
    squares = along.square().sum(-1).clamp(min=1e-300)
    part = (((points[:, None] - begins) * along).sum(-1) / squares).clamp(0, 1)
    nearest = begins + part.unsqueeze(-1) * along
    apart: Tensor = (points[:, None] - nearest).norm(dim=-1)
    return apart.amin(-1)


def _first_marginal(step: CountedMap, points: Tensor, limits: Limits) -> tuple[int, _Place] | None:
    for number, point in enumerate(points):
        if not step.affords(4 * len(point)):
            return None
        place = _look(step, point, float(residual_of(step, point.unsqueeze(0))[1]))
        if place is not None and len(place.tangents) and place.residual <= limits.slow:
            return number, place
    return None


def _look(step: CountedMap, state: Tensor, residual: float) -> _Place | None:
    """The directions at a state in which F(s) − s hardly changes, and how stable the others are."""
    matrix = step.jacobians(state.unsqueeze(0))[0]
    if not bool(matrix.isfinite().all()):
        return None
    change = matrix - torch.eye(len(state), dtype=state.dtype)
    none = _Place(state, residual, state.new_zeros(0, len(state)), float("nan"))
    inverse, failed = torch.linalg.inv_ex(change)
    if not failed and float(torch.linalg.matrix_norm(inverse)) < 1 / MARGINAL:  # quicker than singular values
        return none
    _, sizes, directions = torch.linalg.svd(change)
    tangents = directions[~_is_fast(sizes)]
    if not len(tangents):
        return none
    others = directions[_is_fast(sizes)]
    return _Place(state, residual, tangents, _radius(others @ matrix @ others.T))


def _radius(matrix: Tensor) -> float:
    """The size of the largest eigenvalue; 0 if there is none."""
    return float(torch.linalg.eigvals(matrix).abs().max()) if len(matrix) else 0.0


def _is_fast(sizes: Tensor) -> Tensor:
    """Which directions are not those of a continuum, by the singular values of J − 1."""
    return sizes > MARGINAL * sizes.max().clamp(max=1.0)


def _correct(step: CountedMap, state: Tensor, limits: Limits) -> _Place | None:
    """The nearest slow state beside this one: Newton's steps in the directions that are not those of a continuum."""
    for _ in range(CORRECTIONS):
        if not step.affords(2 * len(state) + 2):
            return None
        matrix = step.jacobians(state.unsqueeze(0))[0] - torch.eye(len(state), dtype=state.dtype)
        rest = (step(state.unsqueeze(0)) - state)[0]
        if not bool(matrix.isfinite().all() & rest.isfinite().all()):
            return None
        left, sizes, directions = torch.linalg.svd(matrix)
        kept = _is_fast(sizes)
        state = state - directions[kept].T @ ((left[:, kept].T @ rest) / sizes[kept])
    residual = float(residual_of(step, state.unsqueeze(0))[1])
    return _look(step, state, residual) if residual <= limits.slow else None  # false for NaN


def _walk_both_ways(step: CountedMap, place: _Place, limits: Limits) -> Continuum | None:
    direction = place.tangents[-1]  # the singular value is the smallest
    ahead, closed = _walk(step, place, direction, limits)
    back = [] if closed else _walk(step, place, -direction, limits)[0]
    places = [*reversed(back), place, *ahead]
    if (len(places) - 1) * STRIDE < LEAST:
        return None
    residual = np.array([one.residual for one in places])
    return Continuum(
        torch.stack([one.state for one in places]).numpy(),
        residual,
        int(np.median([len(one.tangents) for one in places])),
        closed,
        bool((residual <= limits.fixed).all()),
        bool(np.median([one.radius for one in places]) < 1),
    )


def _walk(step: CountedMap, place: _Place, direction: Tensor, limits: Limits) -> tuple[list[_Place], bool]:
    """Places along one direction, and whether the walk came back to its beginning."""
    made: list[_Place] = []
    here, stride = place, STRIDE * limits.spread
    for _ in range(2 * WALK):
        there = _correct(step, here.state + stride * direction, limits)
        if there is None or not len(there.tangents) or not _moved(here, there, direction, stride):
            break
        if not bool(limits.inside(there.state)):
            break
        made.append(there)
        if len(made) > 3 and float((there.state - place.state).norm()) < 0.75 * stride:
            return made, True
        onward = there.tangents.T @ (there.tangents @ (there.state - here.state))
        direction, here = onward / onward.norm(), there
    return made[:WALK], False


def _moved(here: _Place, there: _Place, direction: Tensor, stride: float) -> bool:
    """Whether a step of the walk went on, and was not corrected back."""
    moved = there.state - here.state
    return float(moved @ direction) > stride / 2 and float(moved.norm()) < 2 * stride
