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
ROWS = 4
#: This fraction of the first steps of a sequence only turns the frame into place.
SETTLING = 0.1
#: Steps × width³ for a whole recording; above it fewer sequences, and only the last steps.
WORK = 48 * 512**3
#: Steps whose Jacobians are in memory at once.
BLOCK = 32
#: Nats per step above which nearby states move apart. A network that keeps its state well is near 0 on either side, and
#: over the steps of a recording an exponent is known to about 0.03.
CHAOS = 0.05


@dataclass(frozen=True, eq=False)
class Lyapunov:
    """The spectrum of each layer, along its recorded input.

    An exponent is −inf if a step removes a direction, as a dead relu does. All are NaN if the layer ran no step or a
    Jacobian is not finite.
    """

    labels: tuple[str, ...]
    exponents: tuple[Array, ...]  # (states,) of each layer, descending, in nats per step
    largest: Array  # (layers,)


def measure_lyapunov(recording: Recording) -> Lyapunov:
    """Lyapunov exponents of every layer, over the steps of its longest sequences."""
    found = [_spectrum(recording, layer) for layer in recording.layers]
    largest = np.array([values[0] if len(values) else np.nan for values in found])
    return Lyapunov(recording.labels, tuple(found), largest)


def _spectrum(recording: Recording, layer: RecordedLayer) -> Array:
    width = layer.after.shape[-1]
    allowed = max(8, WORK // (len(recording.layers) * max(width, 1) ** 3))
    steps = max(1, int(layer.live.sum(0).max()))
    chosen = longest_rows(layer, min(ROWS, max(1, allowed // steps)))
    total, count = torch.zeros(width, dtype=torch.float64), 0
    for row in chosen:
        chain = longest_chain(recording, layer, row)[-allowed:]
        settling = int(SETTLING * len(chain))
        total += _growth(layer, row, chain, settling)
        count += len(chain) - settling
    if not count or total.isnan().any():
        return np.full(width, np.nan)
    return np.sort((total / count).numpy())[::-1].copy()


def _growth(layer: RecordedLayer, row: int, chain: Tensor, settling: int) -> Tensor:
    """The sum over steps of the logarithm of the growth of each direction."""
    width = layer.after.shape[-1]
    total = torch.zeros(width, dtype=torch.float64)
    # A random frame: one along the axes could contain a direction that a step removes.
    generator = torch.Generator().manual_seed(0)
    frame = torch.linalg.qr(torch.randn(width, width, dtype=torch.float64, generator=generator)).Q
    for first in range(0, len(chain), BLOCK):
        part = chain[first : first + BLOCK]
        matrices = layer.jacobians(layer.x[part, row], layer.before[part, row])
        if not matrices.isfinite().all():
            return torch.full_like(total, torch.nan)
        for number, matrix in enumerate(matrices, first):
            frame, triangle = torch.linalg.qr(matrix @ frame)
            growth = triangle.diagonal().abs()
            if number >= settling:
                hidden = growth <= growth.max() * width * torch.finfo(growth.dtype).eps
                total += torch.where(hidden, 0.0, growth).log()
    return total
