"""Time constants: after what time a unit that is left alone has forgotten all but 1/e of what it held."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from unspool.errors import ArgumentError
from unspool.insight.measures.gates import QUANTILES
from unspool.insight.recording import Recording
from unspool.insight.unit import Unit

Array = NDArray[np.float64]

#: Numbers in the Jacobians that a mean is taken of; of more, evenly spaced ones are taken.
JACOBIAN_NUMBERS = 2**24
FEWEST_JACOBIANS = 16


@dataclass(frozen=True, eq=False)
class Constants:
    """The time constants of one layer by one gate, or of one of its states."""

    label: str
    gate: str  # "f"; or "∂h/∂h" where the cell names no gate that keeps
    tau: Array  # (units,): in the unit of dt; inf for what never fades; NaN where the factor is outside [0, 1]
    quantiles: Array  # (5,): QUANTILES of the units that are not NaN, each a unit's own value, as inf has no middle


@dataclass(frozen=True, eq=False)
class TimeConstants:
    """All time constants of a model; a state of which no unit fades is left out."""

    dt: float  # between steps
    sets: tuple[Constants, ...]


def measure_time_constants(recording: Recording, dt: float = 1.0) -> TimeConstants:
    """τ = −dt / ln f*, where f* is the factor by which a unit's memory shrinks in a step.

    f* is a unit's mean value of the gate that keeps: f, or 1 − z where z takes the new state. In a cell without such
    a gate it is the unit's entry on the diagonal of the mean Jacobian ∂s_t/∂s_{t−1}, where that is in (0, 1].
    """
    if isinstance(dt, bool) or not isinstance(dt, int | float) or not (math.isfinite(dt) and dt > 0):
        raise ArgumentError.of("dt", dt, "is not a positive number", "Give the time between steps, such as dt=0.02")
    sets = []
    for unit in recording.units:
        if not unit.live.any():
            continue
        for gate, factor in _kept(unit) or _diagonals(unit):
            tau = _tau(factor, dt)
            sets.append(Constants(unit.label, gate, tau, _quantiles(tau)))
    return TimeConstants(float(dt), tuple(sets))


def _kept(unit: Unit) -> list[tuple[str, Array]]:
    """Mean values by gate that keeps, in the direction that keeps."""
    means = {
        gate: (unit.named[gate][unit.live].mean(0).numpy(), sign)
        for gate, sign in unit.cell.keeps.items()
        if gate in unit.named
    }
    return [(gate, mean if sign > 0 else 1 - mean) for gate, (mean, sign) in means.items()]


def _diagonals(unit: Unit) -> Iterator[tuple[str, Array]]:
    """The diagonal of the mean Jacobian, by state; NaN outside (0, 1]."""
    x, before = unit.x[unit.live], unit.before[unit.live]
    most = max(FEWEST_JACOBIANS, JACOBIAN_NUMBERS // before.shape[-1] ** 2)
    if len(x) > most:
        places = np.linspace(0, len(x) - 1, most).astype(np.int64)
        x, before = x[places], before[places]
    diagonal = unit.jacobians(x, before).mean(0).diagonal()
    for state, part in unit.split(diagonal).items():
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
