"""Attenuation: how often a signal is shut out twice, by a layer's output gate and by the input gate above it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from unspool.insight.measures.gates import gate_roles
from unspool.insight.recording import Recording
from unspool.insight.unit import Unit
from unspool.learning.gates import HALF

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Pair:
    """The output gate o of a layer and the input gate i of the one that reads it; NaN where no row lives."""

    lower: str  # labels
    upper: str
    closed: float  # share of steps, rows and units at which both are below ½
    lost: float  # mean of relu(1 − o − i)
    by_unit: Array  # (n,): `closed` of every unit


@dataclass(frozen=True, eq=False)
class Attenuation:
    """Every such pair, from the lowest up."""

    pairs: tuple[Pair, ...]


def measure_attenuation(recording: Recording) -> Attenuation:
    """Of neighbouring levels in the same direction of time, where the lower has a gate o and the upper a gate i.

    Unit n below is held against unit n above, up to the smaller width.
    """
    return Attenuation(
        tuple(
            _pair(lower, upper)
            for lower in recording.units
            for upper in recording.units
            if upper.level == lower.level + 1
            and upper.reverse == lower.reverse
            and upper.live.shape == lower.live.shape
            and "o" in gate_roles(lower)
            and "i" in gate_roles(upper)
            and _reads(recording, upper, lower)
        )
    )


def _reads(recording: Recording, upper: Unit, lower: Unit) -> bool:
    """Whether the lower one's output comes to the upper one through no recurrence: an encoder's does not so."""
    given = [call.output for call in recording.calls if call.unit.name == lower.name]
    read = [call.x.sum() for call in recording.calls if call.unit.name == upper.name and call.x.requires_grad]
    found = torch.autograd.grad(read, given, retain_graph=True, allow_unused=True) if read else ()
    return any(gradient is not None for gradient in found)


def _pair(lower: Unit, upper: Unit) -> Pair:
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
