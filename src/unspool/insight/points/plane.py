"""Plane: the two directions in which the recorded states of a system vary most, and their paths there."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from unspool.insight.points.system import System

Array = NDArray[np.float64]

#: At most this many sequences are drawn, and this many recorded states determine the plane.
TRAJECTORIES, STATES = 8, 4096


@dataclass(frozen=True, eq=False)
class Portrait:
    """The plane of one system's first two principal components, and recorded paths in it.

    A system that never ran has a plane of NaN. For a single state the second axis is zero.
    """

    label: str
    alone: str  # why layers beside it are no part of the system; empty if it has all
    axes: Array  # (2, states)
    center: Array  # (states,): the mean state
    explained: Array  # (2,): fraction of the variance along each axis
    trajectories: Array  # (sequences, steps, 2): recorded states there, in the order of the run; NaN after the end

    def show(self, states: Array) -> Array:
        """States, (n, states), in the plane: (n, 2)."""
        return np.asarray((states - self.center) @ self.axes.T)


def draw_portrait(system: System) -> Portrait:
    """The plane of a system's recorded states."""
    after, live = system.after, system.live
    center, axes, explained = find_plane(after[live])
    counts = live.sum(0)
    order = torch.argsort(counts, descending=True, stable=True)
    rows = [int(row) for row in order[:TRAJECTORIES] if counts[row] > 0]
    ways = np.full((len(rows), len(live), 2), np.nan)
    for number, row in enumerate(rows):
        way = after[live[:, row], row].numpy()
        ways[number, : len(way)] = ((way[::-1] if system.layers[0].reverse else way) - center) @ axes.T
    return Portrait(system.label, system.alone, axes, center, explained, ways)


def find_plane(states: Tensor) -> tuple[Array, Array, Array]:
    """Center, axes and fractions of variance of the first two principal components."""
    width = states.shape[-1]
    values = states[:: -(-len(states) // STATES) if len(states) else 1].numpy()
    if not len(values) or not np.isfinite(values).all():
        return np.full(width, np.nan), np.full((2, width), np.nan), np.full(2, np.nan)
    center = values.mean(0)
    _, sizes, directions = np.linalg.svd(values - center, full_matrices=False)
    axes, explained = np.zeros((2, width)), np.zeros(2)
    count = min(2, len(sizes))
    variance = np.square(sizes)
    axes[:count] = directions[:count]
    # The sign of an axis is arbitrary: make its largest part positive.
    axes *= np.where(axes[np.arange(2), np.abs(axes).argmax(1)] < 0, -1.0, 1.0)[:, None]
    if variance.sum() > 0:
        explained[:count] = variance[:count] / variance.sum()
    return center, axes, explained
