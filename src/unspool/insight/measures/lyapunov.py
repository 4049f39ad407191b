"""Lyapunov exponents: how fast small differences of the state grow or decay along the recorded trajectory, by QR.

A frame of directions is moved by the Jacobians of the steps and made orthogonal again after each. The mean logarithm of
the growth of each direction is its exponent: positive is chaos, zero preserves a difference, negative forgets it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from unspool.insight.measures.jacobians import longest_chain, longest_rows
from unspool.insight.recorded_layer import RecordedLayer
from unspool.insight.recording import Recording

Array = NDArray[np.float64]

#: The mean is over at most this many sequences.
ROWS = 8
#: This fraction of the first steps of a sequence only turns the frame into place.
SETTLING = 0.1
#: Multiplications for a whole recording. Above it only the leading directions are followed, over fewer sequences and
#: fewer steps, but at least over so many.
WORK, LEADING, FEWEST_STEPS = 10**10, 32, 256
#: Multiplications of a QR decomposition, beside those of width · directions².
QR = 4
#: Random vectors that tell the size of a matrix of which only the leading directions are followed.
PROBES = 4
#: Nats per step above which nearby states move apart. A network that keeps its state well is near 0 on either side.
CHAOS = 0.05
#: A growth below this many rounding errors of a step's matrix is none: the step removes the direction.
ROUNDING_ERRORS = 16
#: Student's t of 95 % on both sides, by the degrees of freedom from 1.
STUDENT = (12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23, 2.20, 2.18, 2.16, 2.14, 2.13)


@dataclass(frozen=True, eq=False)
class Lyapunov:
    """The spectrum of each layer, along its recorded input.

    An exponent is −inf if a step removes a direction, as a dead relu does; all are for a nilpotent map, which removes
    every direction within some steps. All are NaN if the layer ran no step or a Jacobian is not finite.

    The interval is that of the mean over parts: the halves of each sequence, or the quarters of a single one. It has
    95 % if the parts are independent and normal. It is NaN with fewer than two parts.
    """

    labels: tuple[str, ...]
    exponents: tuple[Array, ...]  # (states,) of each layer, descending, in nats per step; of wide ones the leading 32
    largest: Array  # (layers,)
    interval: Array  # (layers, 2): low and high of the largest
    states: tuple[int, ...] = ()  # of each layer
    measured: tuple[tuple[int, int], ...] = ()  # of each layer: sequences, and steps of each


def measure_lyapunov(recording: Recording) -> Lyapunov:
    """Lyapunov exponents of every layer, over the steps of its longest sequences."""
    found = [_spectrum(recording, layer) for layer in recording.layers]
    return Lyapunov(
        labels=recording.labels,
        exponents=tuple(values for values, _, _ in found),
        largest=np.array([values[0] if len(values) else np.nan for values, _, _ in found]),
        interval=np.array([interval for _, interval, _ in found]),
        states=tuple(layer.after.shape[-1] for layer in recording.layers),
        measured=tuple((extent.rows, extent.steps) for _, _, extent in found),
    )


class _Extent(NamedTuple):
    """What is measured of a layer."""

    directions: int
    rows: int
    steps: int


def _extent(width: int, steps: int, layers: int) -> _Extent:
    """All directions if that is affordable, else the leading ones, over as many sequences and steps as possible."""

    def cost(directions: int) -> int:
        return directions * width * (width + QR * directions)

    work = WORK // layers
    directions = width if steps * cost(width) <= work else min(width, LEADING)
    allowed = max(FEWEST_STEPS, work // max(1, cost(directions)))
    return _Extent(directions, min(ROWS, max(1, allowed // steps)), min(steps, allowed))


def _spectrum(recording: Recording, layer: RecordedLayer) -> tuple[Array, tuple[float, float], _Extent]:
    """The exponents, descending, the interval of the first, and what they were measured over."""
    extent = _extent(layer.after.shape[-1], max(1, int(layer.live.sum(0).max())), len(recording.layers))
    chains: dict[int, list[tuple[int, Tensor]]] = {}  # by their length, so that equally long ones are followed together
    for row in longest_rows(layer, extent.rows):
        chain = longest_chain(recording, layer, row)[-extent.steps :]
        chains.setdefault(len(chain), []).append((row, chain))
    grown = [growth for alike in chains.values() for growth in _growth(layer, alike, extent.directions)]
    halves = 2 if len(grown) > 1 else 4
    parts = [part for growth in grown for part in np.array_split(growth[int(SETTLING * len(growth)) :], halves)]
    steps_measured = np.concatenate(parts) if parts else np.zeros((0, extent.directions))
    extent = _Extent(extent.directions, len(grown), max(map(len, grown), default=0))
    if not len(steps_measured) or np.isnan(steps_measured).any():
        return np.full(extent.directions, np.nan), (np.nan, np.nan), extent
    mean = steps_measured.mean(0)
    order = np.argsort(mean)[::-1]
    return mean[order], _interval(mean, [part.mean(0) for part in parts if len(part)]), extent


def _interval(mean: Array, parts: list[Array]) -> tuple[float, float]:
    """The interval of the largest mean over the parts."""
    if not len(mean) or len(parts) < 2:
        return np.nan, np.nan
    largest = int(mean.argmax())
    if not np.isfinite(mean[largest]):
        return float(mean[largest]), float(mean[largest])
    deviation = float(np.std([part[largest] for part in parts], ddof=1))
    half = STUDENT[min(len(parts) - 1, len(STUDENT)) - 1] * deviation / len(parts) ** 0.5
    return float(mean[largest]) - half, float(mean[largest]) + half


def _growth(layer: RecordedLayer, chains: list[tuple[int, Tensor]], directions: int) -> list[Array]:
    """The logarithm of the growth of each direction by step, (steps, directions), of equally long chains."""
    x = torch.stack([layer.x[chain, row] for row, chain in chains], 1)
    before = torch.stack([layer.before[chain, row] for row, chain in chains], 1)
    steps, rows, width = before.shape
    found = torch.full((steps, rows, directions), torch.nan, dtype=torch.float64)
    # A random frame: one along the axes could contain a direction that a step removes.
    generator = torch.Generator().manual_seed(0)
    drawn = torch.randn(width, directions, dtype=torch.float64, generator=generator)
    frame = torch.linalg.qr(drawn).Q.expand(rows, width, directions)
    probes = torch.randn(PROBES, 1, width, dtype=torch.float64, generator=generator).expand(PROBES, rows, width)
    gone = torch.zeros(rows, dtype=torch.bool)
    for t, step in enumerate(layer.linear.iterate(x, before, range(steps))):
        moved = step.push(torch.cat([frame.permute(2, 0, 1), probes]))
        if not bool(moved.isfinite().all()):
            return [np.full((steps, directions), np.nan) for _ in chains]
        # Beside the size of the matrix and not beside the largest growth, as a nilpotent matrix has no growth at all.
        own = moved[:directions] if directions == width else moved[directions:]
        size = own.square().sum((0, 2)).mul(1 if directions == width else 1 / PROBES).sqrt()
        frame, triangle = torch.linalg.qr(moved[:directions].permute(1, 2, 0))
        growth = triangle.diagonal(dim1=-2, dim2=-1).abs()
        removed = growth <= ROUNDING_ERRORS * width * torch.finfo(growth.dtype).eps * size.unsqueeze(-1)
        found[t] = torch.where(removed, 0.0, growth).log()
        # The first direction was a random one: the steps so far remove them all. What is left is rounding.
        gone |= (size > 0) & removed[:, :1].any(-1)
    found[:, gone] = -torch.inf
    return list(found.transpose(0, 1).numpy())
