"""Ablation: what the loss loses without each unit, by holding the unit at a fixed value and running the model again."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from unspool.cells.numbers import is_number
from unspool.errors import ArgumentError
from unspool.insight.lesion import losses_without
from unspool.insight.recorded_layer import RecordedLayer
from unspool.insight.recording import Gradient, Recording

Array = NDArray[np.float64]

#: Units that are ablated in each layer in turn, before the time is looked at.
TURN = 16
#: What a unit can be held at.
VALUES = ("zero", "mean")


@dataclass(frozen=True, eq=False)
class LayerAblation:
    """One layer: what is lost without each unit."""

    label: str
    lost: Array  # (units,): the loss without the unit − the loss; NaN for units that the time did not suffice for
    order: NDArray[np.int64]  # (units,): by how much the gradient depends on them; the first ones were ablated first


@dataclass(frozen=True, eq=False)
class Ablation:
    """What the loss loses without each unit of each layer."""

    loss: float
    value: str  # what units were held at: "zero", or their "mean"
    layers: tuple[LayerAblation, ...]
    ablated: int  # units
    units: int  # of all layers


def measure_ablation(
    recording: Recording, gradient: Gradient | None = None, value: str = "zero", seconds: float | None = None
) -> Ablation:
    """Run the model once per unit with that unit held at zero, and compare the loss.

    A unit is held at every step, for its own layer and for everything that reads it: its output, and its part of other
    states of the same width, such as c.

    Args:
        recording: the model.
        gradient: of the recording, if it is known already.
        value: "zero", or "mean", the unit's own mean over the data: then it is not missing, it only says nothing.
        seconds: the time that it may take; the units that the gradient depends on most come first. By default all are
            ablated.

    Returns:
        The change of the loss by layer and unit.

    Example:
        >>> recording = record(torch.nn.GRU(3, 4), lambda model: model(torch.randn(9, 2, 3))[0].square().mean())
        >>> measure_ablation(recording).layers[0].lost.shape
        (4,)
    """
    if value not in VALUES:
        raise ArgumentError.of("value", value, "is not what a unit can be held at", f"Choose from {', '.join(VALUES)}")
    if seconds is not None and (not is_number(seconds) or not seconds >= 0):
        raise ArgumentError.of("seconds", seconds, "is not a time", "Give a number of seconds, or None for all units")
    whole = recording.gradient() if gradient is None else gradient
    loss = float(recording.loss.detach())
    orders = [_order(layer, whole.states[layer.name]) for layer in recording.layers]
    lost = _ablate(recording, orders, value, math.inf if seconds is None else time.monotonic() + seconds)
    layers = tuple(
        LayerAblation(layer.label, found - loss, order)
        for layer, found, order in zip(recording.layers, lost, orders, strict=True)
    )
    ablated = sum(int(np.isfinite(one.lost).sum()) for one in layers)
    return Ablation(loss, value, layers, ablated, sum(len(one.lost) for one in layers))


def _ablate(recording: Recording, orders: list[NDArray[np.int64]], value: str, until: float) -> list[Array]:
    """The loss without each unit: a few of each layer in turn, until the time is over."""
    found = [np.full(len(order), np.nan) for order in orders]
    turn = max(map(len, orders)) if until == math.inf else TURN
    for first in range(0, max(map(len, orders)), turn):
        for layer, order, losses in zip(recording.layers, orders, found, strict=True):
            units = order[first : first + turn]
            if len(units) and time.monotonic() < until:
                losses[units] = list(losses_without(recording, layer, *_hold(layer, units, value)))
    return found


def _hold(layer: RecordedLayer, units: NDArray[np.int64], value: str) -> tuple[Tensor, Tensor]:
    """Which states of a layer are held for each unit, and at which values; (units, states) each."""
    held = torch.stack([unit_states(layer, int(unit)) for unit in units])
    at = layer.after[layer.live].mean(0) if value == "mean" else torch.zeros_like(layer.after[0, 0])
    return held, at.expand(len(units), -1)


def unit_states(layer: RecordedLayer, unit: int) -> Tensor:
    """(states,): the components that belong to a unit, in all states as wide as the output."""
    width = next(iter(layer.widths.values()))
    parts = [torch.arange(own) == (unit if own == width else -1) for own in layer.widths.values()]
    return torch.cat(parts)


def _order(layer: RecordedLayer, gradient: Tensor) -> NDArray[np.int64]:
    """The units by the size of gradient × output, the largest first."""
    width = layer.output.shape[-1]
    weight = (gradient[..., :width] * layer.output)[layer.live].abs().sum(0)
    return np.argsort(-weight.numpy(), kind="stable")
