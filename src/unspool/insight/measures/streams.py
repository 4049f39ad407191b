"""Streams: from which unit to which the gradient goes, across levels and between the directions of time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from unspool.insight.measures.flow import norm_of
from unspool.insight.recording import Flow, Gradient, Recording
from unspool.insight.unit import Unit

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Streams:
    """The gradient's ways between units.

    What a unit reads is its input and the states that it starts from, so that a decoder's gradient is seen to reach its
    encoder. A unit that is run several times, each from where the last one stopped, gives to itself.
    """

    labels: tuple[str, ...]
    flows: Array  # (units, units): [i, j], norm of what reaches unit j through what unit i reads, with no unit between
    cross: float | None  # share of the energy between neighbouring levels that changes direction; None without both
    paths: int  # ways down from the highest level to the lowest, both directions of a level being one


def measure_streams(recording: Recording, gradient: Gradient | None = None) -> Streams:
    """The flows of the whole gradient, and what they tell of the wiring."""
    whole = recording.gradient() if gradient is None else gradient
    flows = np.array([_given_by(recording, unit, whole) for unit in recording.units])
    return Streams(
        labels=tuple(unit.label for unit in recording.units),
        flows=flows,
        cross=_cross(flows, recording.units),
        paths=_paths(flows, recording.units),
    )


def _given_by(recording: Recording, unit: Unit, whole: Gradient) -> list[float]:
    """Norms of what every unit gets through what this one reads."""
    flow = Flow(recording.calls)
    first = 0
    for call in recording.calls:
        if call.unit.name != unit.name:
            continue
        steps = slice(first, first + len(call.unit.x))
        first = steps.stop
        _, before, _ = call.pull(whole.states[unit.name][steps])
        _, start = call.cross(before)
        flow.add([call.x, *call.starts], [whole.inputs[unit.name][steps], *call.unit.split(start).values()])
    got: dict[str, list[torch.Tensor]] = {}
    for number, call in enumerate(recording.calls):
        got.setdefault(call.unit.name, []).append(call.inject(flow.take(number))[0])
    return [norm_of(torch.cat(got[other.name])) for other in recording.units]


def _cross(flows: Array, units: Sequence[Unit]) -> float | None:
    """None also where nothing flows between neighbouring levels."""
    levels = np.array([unit.level for unit in units])
    reverse = np.array([unit.reverse for unit in units])
    between = np.where(levels[:, None] == levels + 1, flows, 0.0)
    if reverse.all() or not reverse.any() or not between.max() > 0:
        return None
    energy = np.square(between / between.max())
    return float(energy[reverse[:, None] != reverse].sum() / energy.sum())


def _paths(flows: Array, units: Sequence[Unit]) -> int:
    """Counted level by level: there are as many ways down to a level as to all levels above it that give to it."""
    top = max(unit.level for unit in units)
    edges = {
        (upper.level, lower.level)
        for row, upper in enumerate(units)
        for column, lower in enumerate(units)
        if flows[row, column] != 0
    }
    ways = {top: 1}
    for level in range(top - 1, -1, -1):
        ways[level] = sum(ways[above] for above in range(level + 1, top + 1) if (above, level) in edges)
    return ways[0]
