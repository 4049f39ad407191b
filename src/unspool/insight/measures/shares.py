"""Weight shares: the share of each time step in the gradient of the shared weights."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from unspool.insight.measures.flow import norm_of, padded
from unspool.insight.recorded_layer import RecordedLayer
from unspool.insight.recording import Gradient, Recording

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class WeightShares:
    """The gradient G = Σ_t G_t of all parameters of a layer, split by the step t that used them.

    A step that no sequence has contributes 0. A layer whose whole gradient is zero has NaN for shares.
    """

    labels: tuple[str, ...]
    shares: Array  # (layers, time): ⟨G_t, G⟩ / ‖G‖², which sum to 1; negative if a step pulls the other way
    norms: Array  # (layers, time): ‖G_t‖


def measure_shares(recording: Recording, gradient: Gradient | None = None) -> WeightShares:
    """Shares by step; one step's gradients at a time, so that memory does not grow with the number of steps."""
    whole = recording.gradient() if gradient is None else gradient
    found = [_split(layer, whole.states[layer.name], whole.parameters[layer.name]) for layer in recording.layers]
    return WeightShares(
        labels=recording.labels,
        shares=padded([shares for shares, _ in found], 0.0),
        norms=padded([norms for _, norms in found], 0.0),
    )


def _split(layer: RecordedLayer, states: Tensor, parameters: Mapping[str, Tensor]) -> tuple[Array, Array]:
    total = _flat(parameters, layer)
    size = norm_of(total)
    direction = total / size if size else torch.full_like(total, torch.nan)
    shares, norms = np.zeros(len(states)), np.zeros(len(states))
    for time, live in enumerate(layer.live):
        if live.any():
            _, _, gradients = layer.pull(layer.x[time, live], layer.before[time, live], states[time, live])
            own = _flat(gradients, layer)
            shares[time] = float(own @ direction) / size if size else np.nan
            norms[time] = norm_of(own)
    return shares if size else np.full_like(shares, np.nan), norms


def _flat(parameters: Mapping[str, Tensor], layer: RecordedLayer) -> Tensor:
    parts = [value.flatten() for value in parameters.values()]
    return torch.cat(parts) if parts else layer.x.new_zeros(0)
