"""Participation: how many dimensions of its state a layer uses."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from unspool.insight.recorded_layer import RecordedLayer
from unspool.insight.recording import Recording

Array = NDArray[np.float64]
Counts = NDArray[np.int64]

#: A unit is nearly constant if its variance is below this fraction of the mean unit's, or its deviation below this.
NEAR_CONSTANT_VARIANCE = 1e-6
NEAR_CONSTANT_DEVIATION = 1e-4
#: A unit is still if it deviates between sequences, or over time, by less than this fraction of the mean unit's size.
STILL = 1e-3
#: Shorter sequences do not tell whether a state moves.
FEWEST_STEPS = 8
#: Directions whose fraction of the variance is kept.
SHOWN = 64


@dataclass(frozen=True, eq=False)
class Participation:
    """The spread of every layer's output over steps and sequences."""

    labels: tuple[str, ...]
    ratio: Array  # (layers,): (Σλ)² / Σλ² of the covariance, from 1 to `size`; 0 if nothing varies
    size: Counts  # (layers,): width of the output
    spectrum: tuple[Array, ...]  # of each layer: fractions of variance, descending, at most 64; 0 if nothing varies
    near_constant: Array  # (layers,): fraction of units that hardly change
    still: (
        Array  # (layers,): fraction of units that hardly move over time, in no sequence, while the input moves; or NaN
    )


def measure_participation(recording: Recording) -> Participation:
    """The effective number of dimensions of the outputs, and the fraction of units that hardly change."""
    spreads = [_spread(layer.output[layer.live].numpy()) for layer in recording.layers]
    return Participation(
        labels=recording.labels,
        ratio=np.array([ratio for ratio, _, _ in spreads]),
        size=np.array([layer.output.shape[-1] for layer in recording.layers], dtype=np.int64),
        spectrum=tuple(spectrum for _, spectrum, _ in spreads),
        near_constant=np.array([constant for _, _, constant in spreads]),
        still=np.array([_still(layer) for layer in recording.layers]),
    )


def _still(layer: RecordedLayer) -> float:
    """The fraction of units that are the same in all sequences, or of a single one over time, while the input differs.

    A state that stays the same over time but differs between sequences has read its input: it holds a memory.
    """
    states, x, live = layer.after.numpy(), layer.x.numpy(), layer.live.numpy()
    if not live.any():
        return float("nan")
    limit = STILL * float(np.sqrt(np.square(states[live]).mean()))
    for deviations in (_between_sequences, _over_time):
        if deviations(x, live).max(initial=0.0) > 0:
            return float((deviations(states, live) <= limit).mean())
    return float("nan")


def _over_time(values: Array, live: NDArray[np.bool_]) -> Array:
    """The largest deviation of each unit over the second half of a sequence; 0 with fewer than eight steps."""
    lengths = live.sum(0)
    found = [
        values[live[:, row], row][int(length) // 2 :].std(0)
        for row, length in enumerate(lengths)
        if length >= FEWEST_STEPS
    ]
    return np.max(found, 0) if found else np.zeros(values.shape[-1])


def _between_sequences(values: Array, live: NDArray[np.bool_]) -> Array:
    """The largest deviation of each unit between sequences at the same step, in the second half; 0 of a single one."""
    found = [values[step, live[step]].std(0) for step in range(len(live) // 2, len(live)) if live[step].sum() > 1]
    return np.max(found, 0) if found else np.zeros(values.shape[-1])


def _spread(outputs: Array) -> tuple[float, Array, float]:
    """Ratio, spectrum and fraction of near-constant units of outputs (places, units)."""
    width = outputs.shape[1]
    # The mean of equal values can be off by rounding, which would look like a direction.
    still = (outputs == outputs[:1]).all(0)
    centerd = np.where(still, 0, outputs - outputs.sum(0) / max(1, len(outputs)))
    covariance = centerd.T @ centerd / max(1, len(outputs))
    values = np.linalg.eigvalsh(covariance)[::-1].clip(min=0)
    total = values.sum()
    variances = covariance.diagonal()
    constant = (variances < NEAR_CONSTANT_VARIANCE * variances.mean()) | (variances < NEAR_CONSTANT_DEVIATION**2)
    if not total:
        return 0.0, np.zeros(min(width, SHOWN)), float(constant.mean())
    fractions = values / total
    return float(1 / (fractions**2).sum()), fractions[:SHOWN].copy(), float(constant.mean())
