"""Sensitivity kernel: what an impulse at the entrance does to the top of the network so many steps away.

K(τ) is how much the top's output changes τ steps from a unit impulse. Measured again with one unit's recurrence
removed, it tells what that recurrence does: with less of it all in all, the unit accumulates; with more, it smooths.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from unspool.errors import ArgumentError
from unspool.insight.recording import Recording
from unspool.insight.unit import Unit

Array = NDArray[np.float64]

#: Random directions of the impulse that the mean is over, at least: one a row, in as many passes as that takes.
DIRECTIONS = 8


@dataclass(frozen=True, eq=False)
class Sensitivity:
    """The kernel, whole and with each unit's recurrence removed.

    In a network that reads both ways K(τ) counts what happens τ steps later and τ steps earlier. Without steps, or
    without an entrance, there are no lags, and `delta` is NaN.
    """

    labels: tuple[str, ...]
    lags: NDArray[np.int64]  # (lags,): 0, 1, 2, …
    kernel: Array  # (lags,): mean over rows and directions of the norm of the response
    removed: Array  # (units, lags)
    delta: Array  # (units,): Σ kernel − Σ removed: above 0 the unit accumulates, below it smooths


@dataclass(frozen=True, eq=False)
class Entrance:
    """Where a signal enters: the steps that the entrance runs, and the rows that live for the most of them."""

    unit: Unit
    steps: int  # of these rows
    rows: tuple[int, ...]


def find_entrance(recording: Recording) -> Entrance | None:
    """The entrance of the recording; None where nothing enters."""
    entrances = recording.entrances
    if not entrances:
        return None
    name = recording.calls[entrances[0]].unit.name
    unit = next(unit for unit in recording.units if unit.name == name)
    counts = unit.live.sum(0)
    steps = int(counts.max())
    rows = [row for row in range(len(counts)) if counts[row] == steps and unit.live[:steps, row].all()]
    return Entrance(unit, steps, tuple(rows)) if steps and rows else None


def respond_by_unit(
    recording: Recording, entrance: Entrance, signal: Callable[[int], Tensor], without: Sequence[str] = ()
) -> dict[str, Tensor]:
    """Responses of every unit's output, (time, rows, width), to a signal at all entrances that run the same steps.

    `signal` gives for a width of the input the change of x, (time, rows, width).
    """
    steps = {unit.name: len(unit.x) for unit in recording.units}
    entrances, offsets = set(recording.entrances), dict.fromkeys(steps, 0)
    tangents = {}
    for number, call in enumerate(recording.calls):
        name, own = call.unit.name, len(call.unit.x)
        if number in entrances and steps[name] == len(entrance.unit.x):
            tangents[number] = signal(call.unit.x.shape[-1])[offsets[name] : offsets[name] + own]
        offsets[name] += own
    found = recording.respond(tangents, without)
    return {
        name: torch.cat([found[n].double() for n, call in enumerate(recording.calls) if call.unit.name == name])
        for name in steps
    }


def random_directions(count: int, width: int) -> Tensor:
    """Vectors of length 1, (count, width), the same at every call."""
    drawn = torch.randn(count, width, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    return torch.nn.functional.normalize(drawn, dim=-1)


def measure_sensitivity(recording: Recording, limit: int | None = None) -> Sensitivity:
    """The kernel over as many lags as the rows have room for, or `limit` of them."""
    if limit is not None and limit < 1:
        raise ArgumentError.of("limit", limit, "is not a number of lags", "Give an integer of at least 1, or None")
    units = recording.units
    entrance = find_entrance(recording)
    labels = tuple(unit.label for unit in units)
    if entrance is None:
        return Sensitivity(labels, np.arange(0), np.zeros(0), np.zeros((len(units), 0)), np.full(len(units), np.nan))
    at, count = _place(units, entrance.steps)
    count = count if limit is None else min(count, limit)
    kernel = _kernel(recording, entrance, at, count)
    removed = np.array([_kernel(recording, entrance, at, count, [unit.name]) for unit in units])
    return Sensitivity(labels, np.arange(count), kernel, removed, kernel.sum() - removed.sum(-1))


def _place(units: Sequence[Unit], steps: int) -> tuple[int, int]:
    """The step of the impulse, away from where rows begin, and how many lags there is room for."""
    quarter = steps // 4
    if not any(unit.reverse for unit in units):
        return quarter, steps - quarter
    if all(unit.reverse for unit in units):
        return steps - 1 - quarter, steps - quarter
    middle = steps // 2
    return middle, min(middle, steps - 1 - middle) + 1


def _kernel(recording: Recording, entrance: Entrance, at: int, count: int, without: Sequence[str] = ()) -> Array:
    like = [unit for unit in recording.units if len(unit.x) == len(entrance.unit.x)]
    top = [unit.name for unit in like if unit.level == max(unit.level for unit in like)]
    rows = list(entrance.rows)
    passes = -(-DIRECTIONS // len(rows))
    total = np.zeros(count)
    for turn in range(passes):

        def impulse(width: int, turn: int = turn) -> Tensor:
            change = torch.zeros(*entrance.unit.live.shape, width, dtype=torch.float64)
            change[at, rows] = random_directions(passes * len(rows), width)[turn * len(rows) : (turn + 1) * len(rows)]
            return change

        found = respond_by_unit(recording, entrance, impulse, without)
        size = torch.cat([found[name] for name in top], -1)[: entrance.steps, rows].norm(dim=-1).mean(-1)
        for lag in range(count):
            total[lag] += sum(float(size[t]) for t in {at - lag, at + lag} if 0 <= t < entrance.steps)
    return total / passes
