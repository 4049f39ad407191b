"""Forgetting: how long two different beginnings can be told apart in the states while the same continuation is read."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from unspool.errors import ArgumentError
from unspool.insight.measures.flow import FLOOR, HORIZON, factor_per_step, norm_of, padded
from unspool.insight.recorder import Edit
from unspool.insight.recording import Recording
from unspool.insight.unit import Unit
from unspool.nn.unroll import States

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Forgetting:
    """The distance between states after different prefixes, s steps into the suffix that they have in common.

    It is relative to the same rows' distance at the end of the prefixes, s = 0. NaN: units that run backwards, which
    read the suffix first; steps that no row has; prefixes after which the states are equal.
    """

    labels: tuple[str, ...]
    steps: NDArray[np.int64]  # (steps,): 0, 1, …
    distance: Array  # (units, steps)
    rate: Array  # (units,): factor a step; NaN where fewer than two steps tell it
    horizon: NDArray[np.int64]  # (units,): the first step from which distance is below HORIZON; else the last step
    censored: NDArray[np.bool_]  # (units,): there is none, or nothing could be measured


def measure_forgetting(recording: Recording, prefix: int | None = None) -> Forgetting:
    """Every row with the first `prefix` steps (a quarter, unless given) of the next row, beside itself.

    Rows that are shorter than the prefix take no part. If only one is long enough, it reads its prefix backwards.
    """
    longest = max(len(unit.x) for unit in recording.units)
    if prefix is None:
        prefix = max(1, longest // 4)
    elif not 1 <= prefix <= longest:
        raise ArgumentError.of("prefix", prefix, "is no part of the sequence", f"Give 1 to {longest}")
    other = recording.again(_exchange(recording, prefix))
    pairs = zip(recording.units, other.units, strict=True)
    distance = padded([_distance(unit, again, prefix) for unit, again in pairs])
    # Below this, the distance of states is their rounding.
    floor = max(FLOOR, 64 * torch.finfo(recording.calls[0].output.dtype).eps)
    horizons = [_horizon(row) for row in distance]
    return Forgetting(
        labels=tuple(unit.label for unit in recording.units),
        steps=np.arange(distance.shape[1], dtype=np.int64),
        distance=distance,
        rate=np.array([factor_per_step(row, floor) for row in distance]),
        horizon=np.array([step for step, _ in horizons], np.int64),
        censored=np.array([censored for _, censored in horizons]),
    )


def _exchange(recording: Recording, prefix: int) -> Edit:
    """The edit that gives the calls at the entrances other prefixes; a unit's prefix may be spread over its calls."""
    units = {unit.name: unit for unit in recording.units}
    passed = dict.fromkeys(units, 0)
    changed: dict[int, Tensor] = {}
    for number, call in enumerate(recording.calls):
        first = passed[call.unit.name]
        passed[call.unit.name] += len(call.unit.x)
        if number in recording.entrances:
            changed[number] = _others(units[call.unit.name], prefix)[first : passed[call.unit.name]]

    def edit(number: int, x: Tensor, starts: States) -> tuple[Tensor, States]:
        if number in changed:
            x = torch.cat([changed[number].to(x), x[len(changed[number]) :]])
        return x, starts

    return edit


def _others(unit: Unit, prefix: int) -> Tensor:
    own = unit.x[:prefix]
    rows = unit.live[:prefix].all(0).nonzero().flatten()
    found = own.clone()
    found[:, rows] = own[:, rows].flip(0) if len(rows) == 1 else own[:, rows.roll(-1)]
    return found


def _distance(unit: Unit, other: Unit, prefix: int) -> Array:
    steps = len(unit.x) - prefix + 1
    if unit.reverse or steps < 1:
        return np.full(max(steps, 0), np.nan)
    apart = (unit.after - other.after)[prefix - 1 :]
    found = np.full(steps, np.nan)
    for step, live in enumerate(unit.live[prefix - 1 :]):
        first = norm_of(apart[0, live])
        if first > 0:
            found[step] = norm_of(apart[step, live]) / first
    return found


def _horizon(distance: Array) -> tuple[int, bool]:
    known = np.flatnonzero(~np.isnan(distance))
    if not len(known):
        return 0, True
    last_above = int(np.flatnonzero(np.nan_to_num(distance, nan=0.0) >= HORIZON).max())
    return (int(known[-1]), True) if last_above == known[-1] else (last_above + 1, False)
