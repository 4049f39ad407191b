"""Inputs: the size of what the lowest layers read, where it comes from the data and not from weights."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from unspool.insight.call import Call
from unspool.insight.recording import Recording

Array = NDArray[np.float64]

#: A feature that is zero at more than this fraction of places, as in a one-hot code, is not compared with others.
SPARSE = 0.5


@dataclass(frozen=True, eq=False)
class Inputs:
    """The sizes of the numbers that each layer reads from the data; layers that read other layers are not here."""

    labels: tuple[str, ...]
    largest: Array  # (layers,): root mean square of the largest feature
    norm: Array  # (layers,): root mean square of the norm of a step's input
    unequal: Array  # (layers,): deviation of the feature that varies most over that of the one that varies least


def measure_inputs(recording: Recording) -> Inputs:
    """The sizes of features; nothing for a model that learns what its layers read, as an embedding."""
    read = [recording.calls[number] for number in recording.entrances]
    labels = {layer.name: layer.label for layer in recording.layers}
    first = {call.layer.name: call for call in reversed(read) if not call.x.requires_grad and call.layer.live.any()}
    sizes = [_sizes(call) for call in first.values()]
    largest, norm, unequal = (
        (np.array(column, np.float64) for column in zip(*sizes, strict=True)) if sizes else [np.zeros(0)] * 3
    )
    return Inputs(tuple(labels[name] for name in first), largest, norm, unequal)


def _sizes(call: Call) -> tuple[float, float, float]:
    values = call.layer.x[call.layer.live].numpy()
    squares = np.square(values).mean(0)
    deviations = values.std(0)[((values == 0).mean(0) <= SPARSE) & (values.std(0) > 0)]
    unequal = float(deviations.max() / deviations.min()) if len(deviations) > 1 else 1.0
    return float(np.sqrt(squares.max())), float(np.sqrt(squares.sum())), unequal
