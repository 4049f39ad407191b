"""Traces: the states and gates of every unit at every step, from the equations of each layer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from unspool.cells.evaluate import Evaluator
from unspool.cells.gates import find_gates
from unspool.runtime.network import Array, Layer, Recurrence, Stack
from unspool.runtime.recurrence import KEEPING
from unspool.runtime.rounding import as_array
from unspool.runtime.stack import StackPlayer, States


class Channel(NamedTuple):
    """One named value of one layer, which every unit has at every step."""

    layer: int  # from 1, the lowest
    reverse: bool  # whether this direction of the layer reads from the end
    name: str  # in the equations
    role: str  # "state" or "gate"
    units: int


def list_channels(stack: Stack) -> list[Channel]:
    """What `trace_stack` gives, from the lowest layer up."""
    found: list[Channel] = []
    for number, layer in enumerate(stack.layers, 1):
        for one in layer.directions:
            names = _names(one)
            found += [Channel(number, one.reverse, name, role, _width(one, name)) for name, role in names.items()]
    return found


def trace_stack(stack: StackPlayer, x: Array, states: States | None = None) -> list[Array]:
    """The values of all channels over one sequence.

    Args:
        stack: The layers.
        x: (time, 1, input_size).
        states: Those to start from; by default the initial ones.

    Returns:
        For each channel an array (time, units). Layers that read ahead are traced at the step that their output is for.

    Example:
        h, *gates = trace_stack(player.stack, x)
    """
    plan, delay = stack.stack, stack.stack.delay
    start = stack.initial_states(1) if states is None else states
    read = np.concatenate((x, np.zeros((delay, *x.shape[1:]), x.dtype))) if delay else x
    rising, found = [read], list[Array]()
    for layer, own in zip(plan.layers, start, strict=True):
        joined = np.concatenate(rising[-2:], -1) if plan.skip and len(rising) > 1 else rising[-1]
        output, values = _trace_layer(layer, joined, own)
        rising.append(output)
        found += [one[delay:] for one in values]
    return found


def _trace_layer(layer: Layer, x: Array, states: Sequence[Sequence[Array]]) -> tuple[Array, list[Array]]:
    traced = [_trace_recurrence(one, x, own) for one, own in zip(layer.directions, states, strict=True)]
    output = np.concatenate([out for out, _ in traced], -1)
    return output + x if layer.residual else output, [value for _, values in traced for value in values]


def _trace_recurrence(one: Recurrence, x: Array, states: Sequence[Array]) -> tuple[Array, list[Array]]:
    """The output (time, 1, width), and the values of the channels."""
    step, names = Evaluator(one.equations, KEEPING, (one.input_size, one.hidden_size)), _names(one)
    parameters = {name: as_array(one.parameters[name]) for name in one.equations.parameters}
    output = np.zeros((len(x), 1, one.output_size), x.dtype)
    values = [np.zeros((len(x), _width(one, name)), x.dtype) for name in names]
    now: Sequence[Any] = [np.asarray(state) for state in states]
    order = range(len(x) - 1, -1, -1) if one.reverse else range(len(x))
    with np.errstate(all="ignore"):  # as a kernel, which says nothing about infinity
        for t in order:
            now, named = step(parameters, x[t], now)
            output[t] = now[0]
            new = dict(zip(one.equations.states, now, strict=True))
            for place, name in zip(values, names, strict=True):
                place[t] = new[name][0] if name in new else named[name][0]
    return output, values


def _names(one: Recurrence) -> dict[str, str]:
    """The states and the gates of a recurrence, with their roles."""
    states = dict.fromkeys(one.equations.states, "state")
    return states | dict.fromkeys((name for name in find_gates(one.equations) if name not in states), "gate")


def _width(one: Recurrence, name: str) -> int:
    """How many units a named value has."""
    sizes = dict(zip(one.equations.states, one.state_sizes, strict=True))
    if name in sizes:
        return sizes[name]
    return one.equations.size(one.equations.named[name].width or "hidden", one.input_size, one.hidden_size)
