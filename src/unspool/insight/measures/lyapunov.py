"""Lyapunov exponents: how fast small differences of the state grow or decay along the recorded trajectory, by QR.

A frame of directions is moved by the Jacobians of the steps and made orthogonal again after each. The mean logarithm of
the growth of each direction is its exponent: positive is chaos, zero preserves a difference, negative forgets it.
"""

from __future__ import annotations

from dataclasses import dataclass

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
#: Steps × width³ for a whole recording; above it fewer sequences, and only the last steps.
WORK = 48 * 512**3
#: Steps whose Jacobians are in memory at once.
BLOCK = 32
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
    exponents: tuple[Array, ...]  # (states,) of each layer, descending, in nats per step
    largest: Array  # (layers,)
    interval: Array  # (layers, 2): low and high of the largest


def measure_lyapunov(recording: Recording) -> Lyapunov:
    """Lyapunov exponents of every layer, over the steps of its longest sequences."""
    found = [_spectrum(recording, layer) for layer in recording.layers]
    largest = np.array([values[0] if len(values) else np.nan for values, _ in found])
    intervals = np.array([interval for _, interval in found])
    return Lyapunov(recording.labels, tuple(values for values, _ in found), largest, intervals)


def _spectrum(recording: Recording, layer: RecordedLayer) -> tuple[Array, tuple[float, float]]:
    """The exponents, descending, and the interval of the first."""
    width = layer.after.shape[-1]
    allowed = max(8, WORK // (len(recording.layers) * max(width, 1) ** 3))
    steps = max(1, int(layer.live.sum(0).max()))
    chosen = longest_rows(layer, min(ROWS, max(1, allowed // steps)))
    parts: list[Array] = []  # (steps, states): logarithms of the growth
    for row in chosen:
        chain = longest_chain(recording, layer, row)[-allowed:]
        growth = _growth(layer, row, chain)
        parts += np.array_split(growth[int(SETTLING * len(chain)) :], 2 if len(chosen) > 1 else 4)
    steps_measured = np.concatenate(parts) if parts else np.zeros((0, width))
    if not len(steps_measured) or np.isnan(steps_measured).any():
        return np.full(width, np.nan), (np.nan, np.nan)
    mean = steps_measured.mean(0)
    order = np.argsort(mean)[::-1]
    return mean[order], _interval(mean, [part.mean(0) for part in parts if len(part)])


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


def _growth(layer: RecordedLayer, row: int, chain: Tensor) -> Array:
    """The logarithm of the growth of each direction by step, (steps, states)."""
    width = layer.after.shape[-1]
    found = torch.full((len(chain), width), torch.nan, dtype=torch.float64)
    # A random frame: one along the axes could contain a direction that a step removes.
    generator = torch.Generator().manual_seed(0)
    frame = torch.linalg.qr(torch.randn(width, width, dtype=torch.float64, generator=generator)).Q
    for first in range(0, len(chain), BLOCK):
        part = chain[first : first + BLOCK]
        matrices = layer.jacobians(layer.x[part, row], layer.before[part, row])
        if not matrices.isfinite().all():
            return np.full((len(chain), width), np.nan)
        for number, matrix in enumerate(matrices, first):
            frame, triangle = torch.linalg.qr(matrix @ frame)
            growth = triangle.diagonal().abs()
            # Beside the matrix and not beside the largest growth, as a nilpotent matrix has no growth at all.
            size = float(matrix.norm())
            removed = growth <= ROUNDING_ERRORS * width * torch.finfo(growth.dtype).eps * size
            found[number] = torch.where(removed, 0.0, growth).log()
            if size and removed[:1].any():
                # The first direction was a random one: the steps so far remove them all. What is left is rounding.
                return np.full((len(chain), width), -np.inf)
    return found.numpy()
