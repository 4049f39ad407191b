"""Streams: from which layer to which the gradient flows, across levels and between directions of time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from unspool.insight.measures.flow import norm_of
from unspool.insight.recorded_layer import RecordedLayer
from unspool.insight.recording import Flow, Gradient, Recording

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Streams:
    """The gradient between layers.

    A layer reads its input and its starting states, so that a decoder's gradient reaches its encoder. A layer that is
    run several times, each continuing the last, gives to itself.
    """

    labels: tuple[str, ...]
    flows: Array  # (layers, layers): [i, j], norm of what reaches layer j through what layer i reads, directly
    cross: float | None  # fraction of the energy between neighboring levels that changes direction; None without both
    paths: int  # from the highest level to the lowest, where both directions of a level are one


def measure_streams(recording: Recording, gradient: Gradient | None = None) -> Streams:
    """The flows of the whole gradient, and the paths that they take."""
    whole = recording.gradient() if gradient is None else gradient
    flows = np.array([_given_by(recording, layer, whole) for layer in recording.layers])
    return Streams(
        labels=recording.labels,
        flows=flows,
        cross=_cross(flows, recording.layers),
        paths=_paths(flows, recording.layers),
    )


def _given_by(recording: Recording, layer: RecordedLayer, whole: Gradient) -> list[float]:
    """Norms of what every layer gets through what this one reads."""
    flow = Flow(recording.calls)
    first = 0
    for call in recording.calls:
        if call.layer.name != layer.name:
            continue
        steps = slice(first, first + len(call.layer.x))
        first = steps.stop
        _, before, _ = call.pull(whole.states[layer.name][steps])
        _, start = call.cross(before)
        flow.add([call.x, *call.starts], [whole.inputs[layer.name][steps], *call.layer.split(start).values()])
    got: dict[str, list[torch.Tensor]] = {}
    for number, call in enumerate(recording.calls):
        got.setdefault(call.layer.name, []).append(call.inject(flow.take(number))[0])
    return [norm_of(torch.cat(got[other.name])) for other in recording.layers]


def _cross(flows: Array, layers: Sequence[RecordedLayer]) -> float | None:
    """The fraction that changes direction; None also if nothing flows between neighboring levels."""
    levels = np.array([layer.level for layer in layers])
    reverse = np.array([layer.reverse for layer in layers])
    between = np.where(levels[:, None] == levels + 1, flows, 0.0)
    if reverse.all() or not reverse.any() or not between.max() > 0:
        return None
    energy = np.square(between / between.max())
    return float(energy[reverse[:, None] != reverse].sum() / energy.sum())


def _paths(flows: Array, layers: Sequence[RecordedLayer]) -> int:
    """Counted level by level: a level has as many paths as all levels above that give to it."""
    top = max(layer.level for layer in layers)
    edges = {(layers[row].level, layers[column].level) for row, column in np.argwhere(flows != 0)}
    ways = {top: 1}
    for level in range(top - 1, -1, -1):
        ways[level] = sum(ways[above] for above in range(level + 1, top + 1) if (above, level) in edges)
    return ways[0]
