"""The eager loop over time: the equations step by step on torch tensors, differentiable in every way torch has."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from unspool.cells.evaluate import Evaluator

Trace = dict[str, Tensor]
States = tuple[Tensor, ...]


def unroll(
    step: Evaluator,
    parameters: Mapping[str, Tensor],
    x: Tensor,
    states: States,
    ends: Tensor | None = None,
    reverse: bool = False,
    trace: bool = False,
) -> tuple[Tensor, States, Trace]:
    """The eager loop over time: output (time, batch, width), final states, and, if asked, every named value.

    A ragged batch needs no flipping in reverse: a row's state rests until the walk comes to its last step.
    """
    steps, rows, width = x.shape
    if not steps:
        named = step(parameters, x.new_zeros(rows, width), states)[1] if trace else {}
        empty = {name: value.new_zeros(0, *_rows(value, rows).shape) for name, value in named.items()}
        return states[0].new_zeros(0, *states[0].shape), states, empty
    outputs: dict[int, Tensor] = {}
    values: dict[int, Trace] = {}
    for t in reversed(range(steps)) if reverse else range(steps):
        live = None if ends is None else (ends > t).nonzero().squeeze(1)
        if live is None or len(live) == rows:
            new, named = step(parameters, x[t], states)
            states = tuple(_rows(value, rows) for value in new)
            outputs[t] = states[0]
            values[t] = {name: _rows(value, rows) for name, value in named.items()} if trace else {}
        else:  # rows that rest are left out, not masked: a mask stops values, but lets 0·∞ into gradients
            new, named = step(parameters, x[t, live], [state[live] for state in states])
            states = tuple(_place(value, live, state) for value, state in zip(new, states, strict=True))
            blank = x.new_zeros(rows, 1)
            outputs[t] = _place(new[0], live, blank)
            values[t] = {name: _place(value, live, blank) for name, value in named.items()} if trace else {}
    output = torch.stack([outputs[t] for t in range(steps)])
    return output, states, {name: torch.stack([values[t][name] for t in range(steps)]) for name in values[0]}


def _place(value: Tensor, live: Tensor, rows: Tensor) -> Tensor:
    """`rows` with those that live replaced."""
    value = _rows(value, len(live))
    return rows.to(value.dtype).expand(-1, value.shape[1]).index_copy(0, live, value)


def _rows(value: Tensor, rows: int) -> Tensor:
    """A value that does not depend on the batch, such as a parameter vector, as one row each."""
    return value if value.dim() == 2 else value.expand(rows, -1)
