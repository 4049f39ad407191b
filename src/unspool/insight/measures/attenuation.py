"""Attenuation: how often a layer's output gate and the input gate of the next layer are both closed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from unspool.insight.measures.gates import gate_roles
from unspool.insight.recorded_layer import RecordedLayer
from unspool.insight.recording import Recording
from unspool.learning.gates import HALF

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Pair:
    """The output gate o of a layer and the input gate i of the layer above; NaN where no sequence has a step."""

    lower: str  # labels
    upper: str
    closed: float  # fraction of steps and units at which both are below ½
    lost: float  # mean of relu(1 − o − i)
    by_unit: Array  # (n,): `closed` of every unit


@dataclass(frozen=True, eq=False)
class Attenuation:
    """Every such pair, from the lowest layers up."""

    pairs: tuple[Pair, ...]


def measure_attenuation(recording: Recording) -> Attenuation:
    """Pairs of neighboring layers in the same direction, where the lower has a gate o and the upper a gate i.

    Unit n below is compared with unit n above, up to the smaller width.
    """
    pairs = [(lower, upper) for lower in recording.layers for upper in recording.layers if _are_neighbors(lower, upper)]
    return Attenuation(tuple(_pair(*pair) for pair in pairs if _reads(recording, *pair)))


def _are_neighbors(lower: RecordedLayer, upper: RecordedLayer) -> bool:
    """Whether two layers are next to each other, alike in direction and steps, with the gates that are compared."""
    return (
        upper.level == lower.level + 1
        and upper.reverse == lower.reverse
        and upper.live.shape == lower.live.shape
        and _has_per_unit(lower, "o")
        and _has_per_unit(upper, "i")
    )


def _has_per_unit(layer: RecordedLayer, gate: str) -> bool:
    """Whether a layer has the gate with one value per unit; those of heads belong to no unit."""
    return gate in gate_roles(layer) and layer.equations.named[gate].width == "hidden"


def _reads(recording: Recording, lower: RecordedLayer, upper: RecordedLayer) -> bool:
    """Whether the upper layer reads the lower one's output, not only its final state as a decoder does."""
    given = [call.output for call in recording.calls if call.layer.name == lower.name]
    read = [call.x.sum() for call in recording.calls if call.layer.name == upper.name and call.x.requires_grad]
    found = torch.autograd.grad(read, given, retain_graph=True, allow_unused=True) if read else ()
    return any(gradient is not None for gradient in found)


def _pair(lower: RecordedLayer, upper: RecordedLayer) -> Pair:
    o, i, live = lower.named["o"], upper.named["i"], lower.live & upper.live
    width = min(o.shape[-1], i.shape[-1])
    o, i = o[live][:, :width], i[live][:, :width]
    shut = ((o < HALF) & (i < HALF)).double()
    return Pair(
        lower=lower.label,
        upper=upper.label,
        closed=shut.mean().item(),
        lost=torch.relu(1 - o - i).mean().item(),
        by_unit=shut.mean(0).numpy(),
    )
