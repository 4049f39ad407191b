"""Changes: how a small change of what a layer reads spreads over its steps, to first order and exactly."""

from __future__ import annotations

import torch
from torch import Tensor

from unspool.insight.recorded_layer import RecordedLayer


def push_along(layer: RecordedLayer, x: Tensor, starts: Tensor) -> tuple[Tensor, Tensor]:
    """The change of the states over the steps of a layer.

    Args:
        layer: where it is made linear.
        x: the change of its input, (time, batch, input).
        starts: the change of its starting states, (batch, states).

    Returns:
        The change after each step, zero beyond the length of a sequence, and that of the final states.
    """
    found = torch.zeros_like(layer.after)
    change = starts
    steps = [t for t, live in enumerate(layer.live.any(1).tolist()) if live]
    order = steps[::-1] if layer.reverse else steps
    for t, step in zip(order, layer.linear.iterate(layer.x, layer.before, order), strict=True):
        live = layer.live[t].unsqueeze(-1)
        change = torch.where(live, step.push(change, x[t]), change)
        found[t] = change * live
    return found, change


def push_apart(layer: RecordedLayer, x: Tensor, starts: Tensor, begin: Tensor) -> tuple[Tensor, Tensor]:
    """The same of a layer without recurrence, each of whose steps begins at the starting states `begin`."""
    every = len(x), -1, -1
    step = layer.linear.at(layer.x, begin.expand(every))
    found = step.push(starts.expand(every), x) * layer.live.unsqueeze(-1)
    counts = layer.live.sum(0)
    last = torch.zeros_like(counts) if layer.reverse else (counts - 1).clamp(min=0)
    if not len(x):
        return found, starts
    ends = found[last, torch.arange(len(counts))]
    return found, torch.where((counts > 0).unsqueeze(-1), ends, starts)
