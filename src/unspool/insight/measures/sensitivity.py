"""Sensitivity kernel: the response at the top of the network to an impulse at its input, by lag.

K(τ) is how much the output of the top layer changes τ steps from an impulse of size 1. Measured again with the
recurrence of one layer removed, it says what that recurrence does: if the response is smaller without it, the layer
accumulates; if it is larger, the layer smooths.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from unspool.errors import ArgumentError
from unspool.insight.recorded_layer import RecordedLayer
from unspool.insight.recording import Recording

Array = NDArray[np.float64]

#: The mean is over at least this many random directions of the impulse: one per sequence, in several passes. Networks
#: with more steps × parameters have a single pass, so that there are as many directions as sequences.
DIRECTIONS, WORK = 8, 1e9


@dataclass(frozen=True, eq=False)
class Sensitivity:
    """The kernel of the whole model, and with the recurrence of each layer removed.

    In a bidirectional network K(τ) adds up the responses τ steps later and τ steps earlier. Without steps, or without
    an entrance, there are no lags, and `delta` is NaN.
    """

    labels: tuple[str, ...]
    lags: NDArray[np.int64]  # (lags,): 0, 1, 2, …
    kernel: Array  # (lags,): mean over sequences and directions of the norm of the response
    removed: Array  # (layers, lags)
    delta: Array  # (layers,): Σ kernel − Σ removed: above 0 the layer accumulates, below 0 it smooths


@dataclass(frozen=True, eq=False)
class Entrance:
    """The lowest layer, where a signal enters."""

    layer: RecordedLayer
    steps: int  # of the longest sequences
    rows: tuple[int, ...]  # the longest sequences


def find_entrance(recording: Recording) -> Entrance | None:
    """The entrance of the recording; None if there is none."""
    entrances = recording.entrances
    if not entrances:
        return None
    name = recording.calls[entrances[0]].layer.name
    layer = next(layer for layer in recording.layers if layer.name == name)
    counts = layer.live.sum(0)
    steps = int(counts.max())
    rows = _full_rows(layer, steps)
    return Entrance(layer, steps, rows) if steps and rows else None


def _full_rows(layer: RecordedLayer, steps: int) -> tuple[int, ...]:
    """The sequences that have so many steps, from the first on."""
    counts = layer.live.sum(0)
    return tuple(row for row in range(len(counts)) if counts[row] == steps and layer.live[:steps, row].all())


def respond_by_layer(
    recording: Recording, entrance: Entrance, signal: Callable[[int], Tensor], without: Sequence[str] = ()
) -> dict[str, Tensor]:
    """Responses of every layer's output to a signal at all entrances that run the same steps.

    Args:
        recording: the model.
        entrance: one of the entrances.
        signal: for a width of the input the change of x, (time, batch, width).
        without: names of layers whose recurrence is removed.

    Returns:
        By name of the layer, (time, batch, width).
    """
    steps = {layer.name: len(layer.x) for layer in recording.layers}
    entrances, offsets = set(recording.entrances), dict.fromkeys(steps, 0)
    tangents = {}
    for number, call in enumerate(recording.calls):
        name, own = call.layer.name, len(call.layer.x)
        if number in entrances and steps[name] == len(entrance.layer.x):
            tangents[number] = signal(call.layer.x.shape[-1])[offsets[name] : offsets[name] + own]
        offsets[name] += own
    found = recording.respond(tangents, without)
    return {
        name: torch.cat([found[n].double() for n, call in enumerate(recording.calls) if call.layer.name == name])
        for name in steps
    }


def random_directions(count: int, width: int) -> Tensor:
    """Vectors of length 1, (count, width), always the same."""
    drawn = torch.randn(count, width, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    return torch.nn.functional.normalize(drawn, dim=-1)


def measure_sensitivity(recording: Recording, limit: int | None = None) -> Sensitivity:
    """The kernel over as many lags as the sequences have, or `limit` of them."""
    if limit is not None and limit < 1:
        raise ArgumentError.of("limit", limit, "is not a number of lags", "Give at least 1, or None")
    layers = recording.layers
    entrance = find_entrance(recording)
    labels = recording.labels
    if entrance is None:
        return Sensitivity(labels, np.arange(0), np.zeros(0), np.zeros((len(layers), 0)), np.full(len(layers), np.nan))
    at, count = _place(layers, entrance.steps)
    count = count if limit is None else min(count, limit)
    kernel = _kernel(recording, entrance, at, count)
    removed = np.array([_kernel(recording, entrance, at, count, [layer.name]) for layer in layers])
    return Sensitivity(labels, np.arange(count), kernel, removed, kernel.sum() - removed.sum(-1))


def _place(layers: Sequence[RecordedLayer], steps: int) -> tuple[int, int]:
    """The step of the impulse, away from the beginning of the sequences, and how many lags fit."""
    quarter = steps // 4
    if not any(layer.reverse for layer in layers):
        return quarter, steps - quarter
    if all(layer.reverse for layer in layers):
        return steps - 1 - quarter, steps - quarter
    middle = steps // 2
    return middle, min(middle, steps - 1 - middle) + 1


def _kernel(recording: Recording, entrance: Entrance, at: int, count: int, without: Sequence[str] = ()) -> Array:
    top = _top_layers(recording, entrance)
    rows = list(entrance.rows)
    passes = -(-DIRECTIONS // len(rows)) if _work(recording) <= WORK else 1
    total = np.zeros(count)
    for turn in range(passes):

        def impulse(width: int, turn: int = turn) -> Tensor:
            change = torch.zeros(*entrance.layer.live.shape, width, dtype=torch.float64)
            change[at, rows] = random_directions(passes * len(rows), width)[turn * len(rows) : (turn + 1) * len(rows)]
            return change

        found = respond_by_layer(recording, entrance, impulse, without)
        size = torch.cat([found[name] for name in top], -1)[: entrance.steps, rows].norm(dim=-1).mean(-1)
        for lag in range(count):
            total[lag] += sum(float(size[t]) for t in {at - lag, at + lag} if 0 <= t < entrance.steps)
    return total / passes


def _work(recording: Recording) -> int:
    """Steps × parameters of one pass, for one sequence."""
    return sum(len(one.x) * sum(value.numel() for value in one.parameters.values()) for one in recording.layers)


def _top_layers(recording: Recording, entrance: Entrance) -> list[str]:
    """Names of the highest layers that run the same steps as the entrance."""
    layers = [layer for layer in recording.layers if len(layer.x) == len(entrance.layer.x)]
    highest = max(layer.level for layer in layers)
    return [layer.name for layer in layers if layer.level == highest]
