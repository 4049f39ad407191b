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
    """Run the equations over time in Python.

    A ragged batch needs no flipping in reverse: a state rests until the loop comes to its sequence's last step.

    Args:
        step: the equations.
        parameters: by their names in the equations.
        x: the input, (time, batch, input_size).
        states: the initial states, (batch, width) each.
        ends: the length of each sequence; None where all are as long as x.
        reverse: from the last step to the first.
        trace: whether to return every named value.

    Returns:
        The output (time, batch, width), the final states, and every named value at every step if `trace`.
    """
    steps, rows, _ = x.shape
    if not steps:
        return _no_steps(step, parameters, x, states, trace)
    outputs: dict[int, Tensor] = {}
    values: dict[int, Trace] = {}
    for t in reversed(range(steps)) if reverse else range(steps):
        live = None if ends is None else (ends > t).nonzero().squeeze(1)
        if live is None or len(live) == rows:
            states, values[t] = _step_all(step, parameters, x[t], states, trace)
            outputs[t] = states[0]
        else:
            states, outputs[t], values[t] = _step_live(step, parameters, x[t], states, live, trace)
    output = torch.stack([outputs[t] for t in range(steps)])
    return output, states, _over_time([values[t] for t in range(steps)])


def _over_time(values: list[Trace]) -> Trace:
    """The named values of all steps, as one tensor per name."""
    return {name: torch.stack([named[name] for named in values]) for name in values[0]}


def _step_all(
    step: Evaluator, parameters: Mapping[str, Tensor], x: Tensor, states: States, trace: bool
) -> tuple[States, Trace]:
    """One step of the whole batch: new states and, if `trace`, the named values."""
    new, named = step(parameters, x, states)
    rows = len(x)
    values = {name: _rows(value, rows) for name, value in named.items()} if trace else {}
    return tuple(_rows(value, rows) for value in new), values


def _step_live(
    step: Evaluator, parameters: Mapping[str, Tensor], x: Tensor, states: States, live: Tensor, trace: bool
) -> tuple[States, Tensor, Trace]:
    """One step of the sequences that are not over: new states, output, and named values, zero for the others.

    The others are left out, not masked. A mask stops values, but lets 0·∞ into gradients.
    """
    new, named = step(parameters, x[live], [state[live] for state in states])
    states = tuple(_place(value, live, state) for value, state in zip(new, states, strict=True))
    blank = x.new_zeros(len(x), 1)
    values = {name: _place(value, live, blank) for name, value in named.items()} if trace else {}
    return states, _place(new[0], live, blank), values


def _no_steps(
    step: Evaluator, parameters: Mapping[str, Tensor], x: Tensor, states: States, trace: bool
) -> tuple[Tensor, States, Trace]:
    """What a sequence without steps gives; a step on zeros shows how wide the named values are."""
    _, rows, width = x.shape
    named = step(parameters, x.new_zeros(rows, width), states)[1] if trace else {}
    empty = {name: value.new_zeros(0, *_rows(value, rows).shape) for name, value in named.items()}
    return states[0].new_zeros(0, *states[0].shape), states, empty


def _place(value: Tensor, live: Tensor, rows: Tensor) -> Tensor:
    """`rows` with the live ones replaced by those of `value`."""
    value = _rows(value, len(live))
    return rows.to(value.dtype).expand(-1, value.shape[1]).index_copy(0, live, value)


def _rows(value: Tensor, rows: int) -> Tensor:
    """A value with a batch axis. One that does not depend on the batch, such as a parameter vector, is repeated."""
    return value if value.dim() == 2 else value.expand(rows, -1)
