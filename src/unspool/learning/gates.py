"""Gate coordination: a penalty on units that a layer does not output and the layer above does not take in."""

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
from unspool.nn.regularized import GIVE_PLAIN_LAYERS

#: Below this a gate is closed rather than open.
HALF = 0.5


def gate_penalty(o: Tensor, i: Tensor, *, lengths: Sequence[int] | Tensor | None = None) -> Tensor:
    """‖relu(1 − o_t − i_t)‖₁, summed over units, as a mean over sequences and steps.

    A unit costs 1 where both gates are closed, and 0 as soon as they sum to 1. R = λ Σ_t ‖…‖₁ of one long sequence
    grows with its length. The mean does not, nor does it grow with the batch, like the loss: so λ is the cost, in units
    of the loss, of one unit whose gates are closed at every step.

    Args:
        o: The output gate of a layer, (time, batch, units).
        i: The input gate of the layer above it, of the same shape.
        lengths: Of the sequences; steps beyond them do not count.

    Returns:
        The penalty; 0 if there are no steps.

    Example:
        pairs = neighboring_gates(stack, x, sequences)
        loss = loss + 0.1 * sum(gate_penalty(o, i) for o, i in pairs)
    """
    closed = functional.relu(1 - _inside(o, i, o, lengths) - _inside(o, i, i, lengths))
    return closed.sum(-1).mean() if closed.numel() else closed.sum()


def double_closed(o: Tensor, i: Tensor, *, lengths: Sequence[int] | Tensor | None = None) -> float:
    """The fraction of (step, sequence, unit) at which both gates are below ½.

    Args:
        o: The output gate of a layer, (time, batch, units).
        i: The input gate of the layer above it, of the same shape.
        lengths: Of the sequences; steps beyond them do not count.

    Returns:
        The fraction; NaN if there are no steps.

    Example:
        >>> double_closed(torch.tensor([[[0.1, 0.9]]]), torch.tensor([[[0.2, 0.1]]]))
        0.5
    """
    shut = (_inside(o, i, o, lengths) < HALF) & (_inside(o, i, i, lengths) < HALF)
    return float(shut.double().mean())


def neighboring_gates(
    stack: Stack,
    x: Tensor,
    sequences: Sequence[Tensor],
    state: Sequence[Any] | None = None,
    *,
    lengths: Sequence[int] | Tensor | None = None,
) -> list[tuple[Tensor, Tensor]]:
    """The gates (o^ℓ, i^{ℓ+1}) of every two neighboring LSTM layers, and of each direction of time.

    The gates follow from inputs and outputs of layers by one product each, σ(W x_t + U h_{t−1} + b), so that a kernel
    need not keep them. They are differentiable. Dropout between layers is left out of what the upper gate reads.

    Args:
        stack: Layers of LSTM, without residual or skip connections.
        x: The input of the stack, (time, batch, width).
        sequences: Its output with `every_layer=True`.
        state: The state that it started in; by default its initial state.
        lengths: Of the sequences.

    Returns:
        Pairs of tensors (time, batch, units), from the lowest layers up.

    Example:
        sequences, _ = stack(x, every_layer=True)
        pairs = neighboring_gates(stack, x, sequences)
    """
    _check(stack)
    steps, batch_size, _ = x.shape
    ends = check_lengths([steps] * batch_size if lengths is None else lengths, steps, batch_size, x.device)
    state = stack.initial_state(batch_size, x) if state is None else state
    reads = [x, *sequences[:-1]]
    levels = [list(_directions(*level)) for level in zip(stack.layers, reads, sequences, state, strict=True)]
    return [
        (_gate("o", *lower, ends), _gate("i", *upper, ends))
        for below, above in pairwise(levels)
        for lower, upper in zip(below, above, strict=True)
    ]


def _directions(layer: Any, read: Tensor, given: Tensor, state: Any) -> Iterator[tuple[Recurrent, Tensor, Tensor, Any]]:
    """The layer, its input and output, and its first h; of both directions where there are two."""
    if isinstance(layer, Bidirectional):
        halves = given.split([layer.ahead.output_size, layer.back.output_size], -1)
        for part, half, start in zip((layer.ahead, layer.back), halves, state, strict=True):
            yield part, read, half, start[0]
    else:
        yield layer, read, given, state[0]


def _gate(name: str, layer: Recurrent, read: Tensor, given: Tensor, start: Tensor, ends: Tensor) -> Tensor:
    parameters, first = layer.cell_parameters(), start.unsqueeze(0)
    if layer.reverse:  # each sequence begins at its own last step
        times = torch.arange(len(given), device=given.device).unsqueeze(1)
        before = torch.where((times == ends - 1).unsqueeze(-1), first, torch.cat([given[1:], first]))
    else:
        before = torch.cat([first, given[:-1]])
    inner = functional.linear(read, parameters[f"W_{name}"], parameters.get(f"b_{name}"))
    return torch.sigmoid(inner + functional.linear(before, parameters[f"U_{name}"]))


def _inside(o: Tensor, i: Tensor, chosen: Tensor, lengths: Sequence[int] | Tensor | None) -> Tensor:
    """The steps of a gate that lie within the lengths."""
    if o.shape != i.shape or o.dim() != 3:
        problem = f"and i, {tuple(i.shape)}, do not fit each other"
        raise ShapeError.of("o", tuple(o.shape), problem, "Give (time, batch, units), as many units in both")
    if lengths is None:
        return chosen
    steps, batch_size, _ = o.shape
    return chosen[valid_steps(check_lengths(lengths, steps, batch_size, o.device), steps).squeeze(-1)]


def _check(stack: Stack) -> None:
    for layer in stack.modules():
        if isinstance(layer, Recurrent):
            _check_gates(layer)
    if stack.skip or any(stack.residual):
        raise ArgumentError.of(
            "stack", stack, "outputs more than the states of its layers", "Give one without residual, skip"
        )


def _check_gates(layer: Recurrent) -> None:
    if not isinstance(layer.cell, LSTM):
        raise ArgumentError.of("stack", layer, "has no output and input gates", "Give layers of LSTM")
    if layer._regularized is not None:
        raise ArgumentError.of("stack", layer, "has gates that depend on chance", GIVE_PLAIN_LAYERS)
