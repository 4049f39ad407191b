"""Gate co-ordination: what it costs that a unit is shown by no layer and taken in by none above it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from unspool.cells.lstm import LSTM
from unspool.errors import ArgumentError, ShapeError
from unspool.nn import Bidirectional, Recurrent, Stack
from unspool.nn.checks import check_lengths
from unspool.nn.layer import valid_steps

#: Below this a gate is closed rather than open.
HALF = 0.5


def gate_penalty(o: Tensor, i: Tensor, *, lengths: Sequence[int] | Tensor | None = None) -> Tensor:
    """‖relu(1 − o_t − i_t)‖₁, the sum over units, as a mean over rows and steps; 0 if there are none.

    o is the output gate of a layer and i the input gate of the one above it, each (time, rows, units). The price of a
    signal that is let through by neither is 1 where both are shut, and 0 as soon as they are open by 1 together.
    R = λ Σ_t ‖…‖₁ of one long sequence grows with its length. A mean over steps and rows does not, nor with the batch,
    as the loss does not: so λ is what one unit costs, shut on both sides at every step, in units of the loss.
    """
    closed = functional.relu(1 - _inside(o, i, o, lengths) - _inside(o, i, i, lengths))
    return closed.sum(-1).mean() if closed.numel() else closed.sum()


def double_closed(o: Tensor, i: Tensor, *, lengths: Sequence[int] | Tensor | None = None) -> float:
    """The share of steps, rows and units at which both gates are below ½; NaN if there are none."""
    shut = (_inside(o, i, o, lengths) < HALF) & (_inside(o, i, i, lengths) < HALF)
    return float(shut.double().mean())


def neighbouring_gates(
    stack: Stack,
    x: Tensor,
    sequences: Sequence[Tensor],
    state: Sequence[Any] | None = None,
    *,
    lengths: Sequence[int] | Tensor | None = None,
) -> list[tuple[Tensor, Tensor]]:
    """(o^ℓ, i^{ℓ+1}) of every two neighbouring LSTM layers, and of each direction of time: (time, rows, units) each.

    x is what the stack read, time first, `state` what it began with, and `sequences` are what it gave with
    `every_layer=True`. The gates follow from them by one product each, σ(W x_t + U h_{t−1} + b), so that a kernel need
    not keep them, and are differentiable in all of it. Dropout on the way up is left out of what the upper gate reads.
    """
    _check(stack)
    steps, rows, _ = x.shape
    ends = torch.full((rows,), steps) if lengths is None else check_lengths(lengths, steps, rows, x.device)
    state = stack.initial_state(rows, x) if state is None else state
    reads = [x, *sequences[:-1]]
    levels = [list(_directions(*level)) for level in zip(stack.layers, reads, sequences, state, strict=True)]
    return [
        (_gate("o", *lower, ends), _gate("i", *upper, ends))
        for below, above in pairwise(levels)
        for lower, upper in zip(below, above, strict=True)
    ]


def _directions(layer: Any, read: Tensor, given: Tensor, state: Any) -> Iterator[tuple[Recurrent, Tensor, Tensor, Any]]:
    """The layer, what it reads and gives, and its first h; of both directions where there are two."""
    if isinstance(layer, Bidirectional):
        halves = given.split([layer.ahead.output_size, layer.back.output_size], -1)
        for part, half, start in zip((layer.ahead, layer.back), halves, state, strict=True):
            yield part, read, half, start[0]
    else:
        yield layer, read, given, state[0]


def _gate(name: str, layer: Recurrent, read: Tensor, given: Tensor, start: Tensor, ends: Tensor) -> Tensor:
    parameters, first = layer.cell_parameters(), start.unsqueeze(0)
    if layer.reverse:  # each row begins at its own last step
        times = torch.arange(len(given), device=given.device).unsqueeze(1)
        before = torch.where((times == ends - 1).unsqueeze(-1), first, torch.cat([given[1:], first]))
    else:
        before = torch.cat([first, given[:-1]])
    inner = functional.linear(read, parameters[f"W_{name}"], parameters.get(f"b_{name}"))
    return torch.sigmoid(inner + functional.linear(before, parameters[f"U_{name}"]))


def _inside(o: Tensor, i: Tensor, chosen: Tensor, lengths: Sequence[int] | Tensor | None) -> Tensor:
    """The gate's live steps."""
    if o.shape != i.shape or o.dim() != 3:
        problem = f"and i, {tuple(i.shape)}, do not fit each other"
        raise ShapeError.of("o", tuple(o.shape), problem, "Give (time, rows, units), as many units in both")
    if lengths is None:
        return chosen
    steps, rows, _ = o.shape
    return chosen[valid_steps(check_lengths(lengths, steps, rows, o.device), steps).squeeze(-1)]


def _check(stack: Stack) -> None:
    for layer in stack.modules():
        if isinstance(layer, Recurrent) and not isinstance(layer.cell, LSTM):
            raise ArgumentError.of("stack", layer, "has no output and input gates", "Give layers of LSTM")
        if isinstance(layer, Recurrent) and layer._regularised is not None:
            raise ArgumentError.of("stack", layer, "has gates that depend on chance", "Give layers without such rates")
    if stack.skip or any(stack.residual):
        raise ArgumentError.of("stack", stack, "gives more than its layers' states", "Give one without residual, skip")
