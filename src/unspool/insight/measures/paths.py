"""Paths: where the states of the data go, each state of a cell in its own plane.

The states of one cell may have different scales: c of an LSTM is not bounded, h is. In one plane for both, only the
larger one would be seen.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from unspool.insight.measures.jacobians import longest_rows
from unspool.insight.recorded_layer import RecordedLayer
from unspool.insight.recording import Recording

Array = NDArray[np.float64]

#: At most this many sequences are kept.
SEQUENCES = 3


@dataclass(frozen=True, eq=False)
class Path:
    """One state of one layer in the plane of its first two principal components."""

    label: str
    state: str  # its name in the equations
    explained: Array  # (2,): fraction of the variance along each axis; NaN if it does not vary
    points: Array  # (sequences, steps, 2): in the order of the run; NaN after the end


@dataclass(frozen=True, eq=False)
class Paths:
    """Every state of every layer."""

    paths: tuple[Path, ...]


def measure_paths(recording: Recording) -> Paths:
    """The states of the longest sequences, each state of a cell, such as h and c, in its own plane.

    Args:
        recording: the model.

    Returns:
        The paths of every state of every layer.

    Example:
        >>> recording = record(torch.nn.LSTM(3, 4), lambda model: model(torch.randn(9, 2, 3))[0].sum())
        >>> [path.state for path in measure_paths(recording).paths]
        ['h', 'c']
    """
    return Paths(tuple(_measure(layer, state) for layer in recording.layers for state in layer.widths))


def _measure(layer: RecordedLayer, state: str) -> Path:
    values = layer.split(layer.after)[state]
    every = values[layer.live].numpy()
    center = every.mean(0) if len(every) else np.zeros(values.shape[-1])
    _, sizes, directions = np.linalg.svd(every - center, full_matrices=False)
    energy = np.square(sizes)
    explained = np.full(2, np.nan)
    if energy.sum() > 0:
        explained = np.pad(energy / energy.sum(), (0, 2))[:2]
    axes = np.zeros((2, values.shape[-1]))
    axes[: min(2, len(directions))] = directions[:2]
    rows = longest_rows(layer, SEQUENCES)
    points = np.full((len(rows), len(layer.live), 2), np.nan)
    for number, row in enumerate(rows):
        way = values[layer.live[:, row], row].numpy()
        points[number, : len(way)] = ((way[::-1] if layer.reverse else way) - center) @ axes.T
    return Path(layer.label, state, explained, points)
