"""Search: all fixed and slow points of a map, from starts that are drawn until nothing new is expected.

First the map itself is followed from some starts: that leads to every attractor with a large basin, and says whether
there are cycles and runaways. Then the solver descends from independent starts, round after round. What it reaches once
tells how much it may have missed. Guided starts between the points, and opposite to them, are tried last.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from unspool.insight.points.collection import Collection
from unspool.insight.points.continua import Limits
from unspool.insight.points.counted_map import CountedMap, Linear, Map
from unspool.insight.points.fates import Fates, follow
from unspool.insight.points.found import Kind, Points
from unspool.insight.points.solver import ITERATIONS, descend
from unspool.insight.points.spectrum import find_spectra, frequencies, time_constants

#: A point is fixed if its residual is at most this, for states of size 1; slow if it is at most that.
FIXED, SLOW = 1e-16, 1e-5
#: Starts that are followed by the map itself, and the part of the budget that this may take.
FOLLOWED, PART_TO_FOLLOW = 64, 0.25
#: Starts of a round, iterations of a start that the size of a round reckons with, and guided starts at most.
ROUND, USUAL, GUIDED = 128, 25, 256
#: The same for wide states, which are solved by products: the more starts go together, the quicker a product is.
USUAL_OF_WIDE = 6
#: The search ends when this share is found by estimate, and at least so many starts were made.
ENOUGH, FEWEST = 0.99, 64
#: Also when so many starts were made and none has arrived at any point.
IN_VAIN = 256
#: Points at most, and that times width³: their eigenvalues take long. Those with the smallest residual are kept.
MOST, FEW, SPECTRA = 1000, 4, 4e9

Stopped = Literal["recall", "starts", "budget"]


@dataclass(frozen=True, eq=False)
class Starts:
    """Where a search begins.

    Attributes:
        first: states that are tried before others, (n, states): of a trajectory, or those that the caller gives.
        draw: independent random starts, so many; None if there are no others.
        most: random starts at most.
        spread: the size of the states: distances are judged beside it.
        reach: how far from 0 each state comes, (states,). Saturated gates make whole regions beyond it fixed; points
            there are only counted, unless they are isolated, several starts meet there, or the map itself leads to
            them. None for no limit.
    """

    first: Tensor
    draw: Callable[[int], Tensor] | None
    most: int
    spread: float
    reach: Tensor | None = None


def search(
    step: Map, starts: Starts, budget: int, dt: float = 1.0, linear: Callable[[Tensor], Linear] | None = None
) -> Points:
    """The fixed and slow points of a map.

    Args:
        step: the map, (n, states) → (n, states) in float64.
        starts: where to begin.
        budget: evaluations of the map at most, nearly.
        dt: time between steps.
        linear: the map, linear around states; by default by differentiation.

    Returns:
        The points, and how the search went.
    """
    counted = CountedMap(step, budget, linear)
    size = min(1.0, starts.spread**2)
    reach = torch.full_like(starts.first[0], torch.inf) if starts.reach is None else starts.reach
    collection = Collection(counted, Limits(SLOW * size, FIXED, starts.spread, reach))
    fates = _follow(counted, starts, collection)
    made, stopped = _draw_rounds(counted, starts, collection)
    if stopped != "budget" and starts.draw is not None:
        collection.add(descend(counted, _guided(collection.points)), independent=False)
    counted.budget = counted.used + budget // 4  # what is left to be said of the points that were found
    collection.find_continua(few=True)
    return _describe(counted, collection, fates, made, stopped, dt)


def _follow(counted: CountedMap, starts: Starts, collection: Collection) -> Fates:
    begin = starts.first[:: max(1, -(-len(starts.first) // FOLLOWED))]
    if starts.draw is not None:
        begin = torch.cat([begin[: FOLLOWED // 2], starts.draw(FOLLOWED // 2)])
    steps = int(PART_TO_FOLLOW * counted.budget / max(1, len(begin)))
    settled, fates = follow(counted, begin, min(steps, 400))
    collection.add(descend(counted, _different(settled)), independent=False, anywhere=True)
    return fates


def _different(states: Tensor) -> Tensor:
    """One of each group of nearly equal states."""
    kept: list[Tensor] = []
    for state in states:
        if not any(float((state - other).norm()) <= 1e-3 * (1 + float(state.norm())) for other in kept):
            kept.append(state)
    return torch.stack(kept) if kept else states[:0]


def _draw_rounds(counted: CountedMap, starts: Starts, collection: Collection) -> tuple[int, Stopped]:
    """Descend from start after start; how many were made, and why no more."""
    width, made, waiting = starts.first.shape[-1], 0, starts.first
    fewest = min(FEWEST, starts.most)
    while True:
        usual = USUAL_OF_WIDE if counted.can_do_without(width) else USUAL
        room = (counted.budget - counted.used) // (usual * counted.cost_of_move(width))
        if room < 1:
            return made, "budget"
        count = min(ROUND, room)
        if not len(waiting):
            if starts.draw is None or made >= starts.most or (made >= IN_VAIN and not collection.count):
                return made, "starts"
            waiting = starts.draw(min(count, starts.most - made))
        begin, waiting = waiting[:count], waiting[count:]
        ends = descend(counted, begin, ITERATIONS)
        collection.add(ends, independent=True)
        made += len(begin)
        collection.find_continua()
        if not ends.whole:
            return made, "budget"
        if starts.draw is not None and made >= fewest and not len(waiting) and collection.recall().fraction >= ENOUGH:
            return made, "recall"


def _guided(points: Tensor) -> Tensor:
    """Starts opposite to the points, and halfway between two: saddles often lie there."""
    some = points[:64]
    pairs = list(combinations(range(len(some)), 2))
    chosen = [pairs[n] for n in np.linspace(0, len(pairs) - 1, min(len(pairs), GUIDED)).astype(int)]
    between = [(some[first] + some[second]) / 2 for first, second in chosen]
    return torch.cat([-some, *(one.unsqueeze(0) for one in between)])


def _describe(
    counted: CountedMap, collection: Collection, fates: Fates, made: int, stopped: Stopped, dt: float
) -> Points:
    recall = collection.recall()
    most = int(min(MOST, max(FEW, SPECTRA / collection.points.shape[-1] ** 3)))
    order = torch.argsort(collection.residual, stable=True)[:most]
    slow = collection.slow()[order].numpy()
    continua = [replace(one, points=int(on)) for one, on in zip(collection.continua, collection.on, strict=True)]
    slowest = [int(one.residual.argmin()) for one in continua]
    ends = [torch.from_numpy(one.path[place]).unsqueeze(0) for one, place in zip(continua, slowest, strict=True)]
    points = torch.cat([*ends, collection.points[order]])
    spectra = find_spectra(counted.jacobians, points)
    sizes = np.abs(spectra.eigenvalues)
    stable = np.asarray((sizes < 1).all(-1))
    slow = np.concatenate([np.array([not one.fixed for one in continua], bool), slow])
    alone = zip(sizes[len(continua) :], ~slow[len(continua) :], strict=True)
    kinds: list[Kind] = ["continuum"] * len(continua)
    whole = sizes.shape[-1] == points.shape[-1]
    kinds += [_kind(one, still, whole) for one, still in alone]
    on_paths = [one.residual[place] for one, place in zip(continua, slowest, strict=True)]
    return Points(
        points.numpy(),
        np.concatenate([np.array(on_paths, float), collection.residual[order].numpy()]),
        spectra.eigenvalues,
        stable,
        slow,
        tuple(kinds),
        time_constants(spectra.eigenvalues, dt),
        frequencies(spectra.eigenvalues, dt),
        spectra.modes,
        np.concatenate([collection.on, collection.reached[order.numpy()]]),
        recall,
        tuple(continua),
        collection.far,
        fates,
        made,
        counted.used,
        stopped,
        dt,
    )


def _kind(sizes: np.ndarray[tuple[int, ...], np.dtype[np.float64]], fixed: bool, whole: bool) -> Kind:
    """By the sizes of the eigenvalues; unless they are the `whole` spectrum, the others are taken to be below 1."""
    if not fixed:
        return "slow"
    if bool(np.isnan(sizes).any()):
        return "unknown"
    if bool((sizes < 1).all()):
        return "stable"
    return "unstable" if whole and bool((sizes >= 1).all()) else "saddle"
