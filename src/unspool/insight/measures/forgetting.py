"""Forgetting: how long the states differ after two different prefixes, while the same suffix is read."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from unspool.errors import ArgumentError
from unspool.insight.measures.flow import FLOOR, HORIZON, factor_per_step, near_the_end, norm_of, padded
from unspool.insight.recorded_layer import RecordedLayer
from unspool.insight.recorder import Edit
from unspool.insight.recording import Recording
from unspool.nn.unroll import States

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Forgetting:
    """The distance between states after different prefixes, s steps into the common suffix.

    It is relative to the distance at the end of the prefixes, s = 0. It is NaN for layers that run backward, which read
    the suffix first; for steps that no sequence has; and for prefixes after which the states are equal.
    """

    labels: tuple[str, ...]
    steps: NDArray[np.int64]  # (steps,): 0, 1, …
    distance: Array  # (layers, steps)
    rate: Array  # (layers,): factor per step; NaN if fewer than two steps are known
    horizon: NDArray[np.int64]  # (layers,): the first step from which distance stays below HORIZON; else the last step
    censored: NDArray[np.bool_]  # (layers,): there is no such step or it is near the last, or nothing was measured


def measure_forgetting(recording: Recording, prefix: int | None = None) -> Forgetting:
    """The model run again with the prefixes of its sequences exchanged.

    Args:
        recording: the model.
        prefix: steps to exchange; by default a quarter. Each sequence gets the prefix of the next one. Sequences that
            are shorter take no part. If only one is long enough, its prefix is reversed.

    Returns:
        The distance of the states from those without the exchange, by layer and step.
    """
    prefix = _check_prefix(prefix, max(len(layer.x) for layer in recording.layers))
    other = recording.again(_exchange(recording, prefix))
    pairs = zip(recording.layers, other.layers, strict=True)
    distance = padded([_distance(layer, again, prefix) for layer, again in pairs])
    # Below this, the distance of the states is rounding.
    floor = max(FLOOR, 64 * torch.finfo(recording.calls[0].output.dtype).eps)
    horizons = [_horizon(row) for row in distance]
    return Forgetting(
        labels=recording.labels,
        steps=np.arange(distance.shape[1], dtype=np.int64),
        distance=distance,
        rate=np.array([factor_per_step(row, floor) for row in distance]),
        horizon=np.array([step for step, _ in horizons], np.int64),
        censored=np.array([censored for _, censored in horizons]),
    )


def _check_prefix(prefix: int | None, longest: int) -> int:
    """How many steps are exchanged; by default a quarter."""
    if prefix is None:
        return max(1, longest // 4)
    if not 1 <= prefix <= longest:
        raise ArgumentError.of("prefix", prefix, "is not a part of the sequence", f"Give 1 to {longest}")
    return prefix


def _exchange(recording: Recording, prefix: int) -> Edit:
    """The edit that exchanges prefixes at the entrances; a layer's prefix may be spread over its calls."""
    layers = {layer.name: layer for layer in recording.layers}
    passed = dict.fromkeys(layers, 0)
    changed: dict[int, Tensor] = {}
    for number, call in enumerate(recording.calls):
        first = passed[call.layer.name]
        passed[call.layer.name] += len(call.layer.x)
        if number in recording.entrances:
            changed[number] = _others(layers[call.layer.name], prefix)[first : passed[call.layer.name]]

    def edit(number: int, x: Tensor, starts: States) -> tuple[Tensor, States]:
        if number in changed:
            x = torch.cat([changed[number].to(x), x[len(changed[number]) :]])
        return x, starts

    return edit


def _others(layer: RecordedLayer, prefix: int) -> Tensor:
    own = layer.x[:prefix]
    rows = layer.live[:prefix].all(0).nonzero().flatten()
    found = own.clone()
    found[:, rows] = own[:, rows].flip(0) if len(rows) == 1 else own[:, rows.roll(-1)]
    return found


def _distance(layer: RecordedLayer, other: RecordedLayer, prefix: int) -> Array:
    steps = len(layer.x) - prefix + 1
    if layer.reverse or steps < 1:
        return np.full(max(steps, 0), np.nan)
    apart = (layer.after - other.after)[prefix - 1 :]
    found = np.full(steps, np.nan)
    for step, live in enumerate(layer.live[prefix - 1 :]):
        first = norm_of(apart[0, live])
        if first > 0:
            found[step] = norm_of(apart[step, live]) / first
    return found


def _horizon(distance: Array) -> tuple[int, bool]:
    known = np.flatnonzero(~np.isnan(distance))
    if not len(known):
        return 0, True
    last_above = int(np.flatnonzero(np.nan_to_num(distance, nan=0.0) >= HORIZON).max())
    if last_above == known[-1]:
        return int(known[-1]), True
    return last_above + 1, near_the_end(last_above + 1, len(known))
