"""Time constants: the time after which 1/e of a unit's memory is left."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from unspool.cells.gates import find_series
from unspool.cells.numbers import is_number
from unspool.errors import ArgumentError
from unspool.insight.measures.gates import QUANTILES
from unspool.insight.recorded_layer import RecordedLayer
from unspool.insight.recording import Recording

Array = NDArray[np.float64]

#: Numbers in the Jacobians of which the mean is taken; of more Jacobians, evenly spaced ones are used.
JACOBIAN_NUMBERS = 2**24
FEWEST_JACOBIANS = 16
#: Between the names of gates that a unit passes one after another.
SERIES = " · "


@dataclass(frozen=True, eq=False)
class Constants:
    """The time constants of one layer by one gate, or of one of its states."""

    label: str
    gate: str  # "f"; "t1 · t2" if a unit passes both in a step; "∂h/∂h" if the cell declares no gate that keeps
    tau: Array  # (units,): in the unit of dt; inf for a memory that never fades; NaN if the factor is outside [0, 1]
    quantiles: Array  # (5,): QUANTILES over the units that are not NaN, without interpolation, as inf has no middle


@dataclass(frozen=True, eq=False)
class TimeConstants:
    """All time constants of a model, without states of which no unit fades."""

    dt: float  # time between steps
    sets: tuple[Constants, ...]


def measure_time_constants(recording: Recording, dt: float = 1.0) -> TimeConstants:
    """τ = −dt / ln f*, where f* is the factor by which a unit's memory shrinks per step.

    f* is a unit's mean value of the gate that keeps: f, or 1 − z if z takes the new state; of gates that it passes one
    after another in each step, as in RHN, the mean of their product. In a cell without such a gate it is the unit's
    entry on the diagonal of the mean Jacobian ∂s_t/∂s_{t−1}, if that is in (0, 1]; of wide states the mean is over
    evenly spaced steps, at least 16.

    Args:
        recording: the model.
        dt: time between steps.

    Returns:
        The time constants of every layer, by unit.
    """
    if not is_number(dt) or not (math.isfinite(dt) and dt > 0):
        raise ArgumentError.of("dt", dt, "is not a positive number", "Give the time between steps, such as `dt=0.02`")
    live = [layer for layer in recording.layers if layer.live.any()]
    return TimeConstants(float(dt), tuple(one for layer in live for one in _measure_layer(layer, dt)))


def _measure_layer(layer: RecordedLayer, dt: float) -> Iterator[Constants]:
    for gate, factor in _kept(layer) or _diagonals(layer):
        tau = _tau(factor, dt)
        yield Constants(layer.label, gate, tau, _quantiles(tau))


def _kept(layer: RecordedLayer) -> list[tuple[str, Array]]:
    """The mean of what the gates that keep leave of a unit, by their names: 1 is kept entirely."""
    signs = {gate: sign for gate, sign in layer.cell.keeps.items() if gate in layer.named}
    values = {gate: layer.named[gate][layer.live].numpy() for gate in signs}
    kept = {gate: value if signs[gate] > 0 else 1 - value for gate, value in values.items()}
    series = find_series(layer.equations, signs)
    return [(SERIES.join(gates), np.prod([kept[gate] for gate in gates], axis=0).mean(0)) for gates in series]


def _diagonals(layer: RecordedLayer) -> Iterator[tuple[str, Array]]:
    """The diagonal of the mean Jacobian, by state; NaN outside (0, 1]."""
    x, before = layer.x[layer.live], layer.before[layer.live]
    most = max(FEWEST_JACOBIANS, JACOBIAN_NUMBERS // before.shape[-1] ** 2)
    if len(x) > most:
        places = np.linspace(0, len(x) - 1, most).astype(np.int64)
        x, before = x[places], before[places]
    diagonal = layer.jacobians(x, before).mean(0).diagonal()
    for state, part in layer.split(diagonal).items():
        factor = part.numpy()
        inside = (factor > 0) & (factor <= 1)
        if inside.any():
            yield f"∂{state}/∂{state}", np.where(inside, factor, np.nan)


def _tau(factor: Array, dt: float) -> Array:
    with np.errstate(divide="ignore", invalid="ignore"):
        tau: Array = -dt / np.log(factor)
    tau[factor == 1] = np.inf  # −dt / +0
    tau[(factor < 0) | (factor > 1)] = np.nan
    return tau


def _quantiles(tau: Array) -> Array:
    known = np.sort(tau[~np.isnan(tau)])
    if not len(known):
        return np.full(len(QUANTILES), np.nan)
    chosen: Array = known[np.rint(np.array(QUANTILES) * (len(known) - 1)).astype(np.int64)]
    return chosen
