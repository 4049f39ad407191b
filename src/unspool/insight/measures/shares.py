"""Weight shares: how much of a shared weight's gradient each time step's use of it gives."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from unspool.insight.measures.flow import norm_of, padded
from unspool.insight.recording import Gradient, Recording
from unspool.insight.unit import Unit

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class WeightShares:
    """The gradient G = Σ_t G_t of all parameters of a unit, apart by the step t that used them.

    A step that no row has gives nothing: 0. A unit whose whole gradient is zero has NaN for shares.
    """

    labels: tuple[str, ...]
    shares: Array  # (units, time): ⟨G_t, G⟩ / ‖G‖², which sum to 1; below 0 where a step pulls the other way
    norms: Array  # (units, time): ‖G_t‖


def measure_shares(recording: Recording, gradient: Gradient | None = None) -> WeightShares:
    """One step's parameter gradients at a time, so that memory does not grow with the number of steps."""
    whole = recording.gradient() if gradient is None else gradient
    found = [_apart(unit, whole.states[unit.name], whole.parameters[unit.name]) for unit in recording.units]
    return WeightShares(
        labels=tuple(unit.label for unit in recording.units),
        shares=padded([shares for shares, _ in found], 0.0),
        norms=padded([norms for _, norms in found], 0.0),
    )


def _apart(unit: Unit, states: Tensor, parameters: Mapping[str, Tensor]) -> tuple[Array, Array]:
    total = _flat(parameters, unit)
    size = norm_of(total)
    direction = total / size if size else torch.full_like(total, torch.nan)
    shares, norms = np.zeros(len(states)), np.zeros(len(states))
    for time, live in enumerate(unit.live):
        if live.any():
            _, _, gradients = unit.pull(unit.x[time, live], unit.before[time, live], states[time, live])
            own = _flat(gradients, unit)
            shares[time] = float(own @ direction) / size if size else np.nan
            norms[time] = norm_of(own)
    return shares if size else np.full_like(shares, np.nan), norms


def _flat(parameters: Mapping[str, Tensor], unit: Unit) -> Tensor:
    parts = [value.flatten() for value in parameters.values()]
    return torch.cat(parts) if parts else unit.x.new_zeros(0)
