"""Participation: how many dimensions of its state a layer uses."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from unspool.insight.recording import Recording

Array = NDArray[np.float64]
Counts = NDArray[np.int64]

#: A unit is as good as constant if its variance is below this share of the mean unit's, or its deviation below that.
NEAR_CONSTANT_VARIANCE = 1e-6
NEAR_CONSTANT_DEVIATION = 1e-4
#: Directions whose share of the variance is told.
SHOWN = 64


@dataclass(frozen=True, eq=False)
class Participation:
    """The spread of every layer's output over steps and rows."""

    labels: tuple[str, ...]
    ratio: Array  # (units,): (Σλ)² / Σλ² of the covariance, from 1 to `size`; 0 where nothing varies
    size: Counts  # (units,): width of the output
    spectrum: tuple[Array, ...]  # of each layer: shares of variance, descending, at most 64; 0 where nothing varies
    near_constant: Array  # (units,): share of units that as good as never change


def measure_participation(recording: Recording) -> Participation:
    """The effective number of dimensions of the outputs, and the units that do not take part."""
    spreads = [_spread(unit.output[unit.live].numpy()) for unit in recording.units]
    return Participation(
        labels=tuple(unit.label for unit in recording.units),
        ratio=np.array([ratio for ratio, _, _ in spreads]),
        size=np.array([unit.output.shape[-1] for unit in recording.units], dtype=np.int64),
        spectrum=tuple(spectrum for _, spectrum, _ in spreads),
        near_constant=np.array([share for _, _, share in spreads]),
    )


def _spread(outputs: Array) -> tuple[float, Array, float]:
    """Ratio, spectrum and share of near-constant units of (places, units)."""
    width = outputs.shape[1]
    # A mean of equal values can be off by a rounding, which would look like a direction.
    still = (outputs == outputs[:1]).all(0)
    centred = np.where(still, 0, outputs - outputs.sum(0) / max(1, len(outputs)))
    covariance = centred.T @ centred / max(1, len(outputs))
    values = np.linalg.eigvalsh(covariance)[::-1].clip(min=0)
    total = values.sum()
    variances = covariance.diagonal()
    constant = (variances < NEAR_CONSTANT_VARIANCE * variances.mean()) | (variances < NEAR_CONSTANT_DEVIATION**2)
    if not total:
        return 0.0, np.zeros(min(width, SHOWN)), float(constant.mean())
    shares = values / total
    return float(1 / (shares**2).sum()), shares[:SHOWN].copy(), float(constant.mean())
