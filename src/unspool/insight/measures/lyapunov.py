"""Lyapunov exponents: how fast small differences of the state grow or die along the recorded trajectory, by QR.

A frame of directions is carried along by the Jacobians of the steps and made orthogonal again after each; the mean
logarithm of what each direction has grown by is its exponent. A positive one is chaos, zero keeps, a negative forgets.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from unspool.insight.measures.jacobians import longest_chain, longest_rows
from unspool.insight.recording import Recording
from unspool.insight.unit import Unit

Array = NDArray[np.float64]

#: Rows that the mean is over, at most.
ROWS = 4
#: The first steps of a row, this share of them, only turn the frame into place.
SETTLING = 0.1
#: Steps × width³ for a whole recording; above it fewer rows, and the last steps only.
WORK = 48 * 512**3
#: Steps whose Jacobians are held at once.
BLOCK = 32


@dataclass(frozen=True, eq=False)
class Lyapunov:
    """The spectrum of each unit, its input being as it was.

    An exponent is −inf where a step wipes a direction out, as a dead relu does. All are NaN where no row lives or a
    Jacobian is not finite.
    """

    labels: tuple[str, ...]
    exponents: tuple[Array, ...]  # (states,) of each unit, descending, in nats per step
    largest: Array  # (units,)


def measure_lyapunov(recording: Recording) -> Lyapunov:
    """Lyapunov exponents of every unit, over the steps of its longest rows."""
    found = [_spectrum(recording, unit) for unit in recording.units]
    largest = np.array([values[0] if len(values) else np.nan for values in found])
    return Lyapunov(tuple(unit.label for unit in recording.units), tuple(found), largest)


def _spectrum(recording: Recording, unit: Unit) -> Array:
    width = unit.after.shape[-1]
    allowed = max(8, WORK // (len(recording.units) * max(width, 1) ** 3))
    steps = max(1, int(unit.live.sum(0).max()))
    chosen = longest_rows(unit, min(ROWS, max(1, allowed // steps)))
    total, count = torch.zeros(width, dtype=torch.float64), 0
    for row in chosen:
        chain = longest_chain(recording, unit, row)[-allowed:]
        settling = int(SETTLING * len(chain))
        total += _growth(unit, row, chain, settling)
        count += len(chain) - settling
    if not count or total.isnan().any():
        return np.full(width, np.nan)
    return np.sort((total / count).numpy())[::-1].copy()


def _growth(unit: Unit, row: int, chain: Tensor, settling: int) -> Tensor:
    """The sum over steps of the logarithm of each direction's growth."""
    width = unit.after.shape[-1]
    total = torch.zeros(width, dtype=torch.float64)
    # A frame in no special position: along the axes it could lie in a direction that a step wipes out.
    generator = torch.Generator().manual_seed(0)
    frame = torch.linalg.qr(torch.randn(width, width, dtype=torch.float64, generator=generator)).Q
    for first in range(0, len(chain), BLOCK):
        part = chain[first : first + BLOCK]
        matrices = unit.jacobians(unit.x[part, row], unit.before[part, row])
        if not matrices.isfinite().all():
            return torch.full_like(total, torch.nan)
        for number, matrix in enumerate(matrices, first):
            frame, triangle = torch.linalg.qr(matrix @ frame)
            growth = triangle.diagonal().abs()
            if number >= settling:
                hidden = growth <= growth.max() * width * torch.finfo(growth.dtype).eps
                total += torch.where(hidden, 0.0, growth).log()
    return total
