"""A stack of recurrent layers in ONNX: skip and residual connections, delay, states in and out."""

from __future__ import annotations

from dataclasses import dataclass

from unspool.exchange.onnx.graph import FLOAT, GraphBuilder
from unspool.exchange.onnx.names import state_names
from unspool.exchange.onnx.recurrence import Padding, States, emit_layer, emit_padding, mask
from unspool.runtime.network import Recurrence, Stack

#: The states of all layers, of each direction.
AllStates = list[list[States]]


@dataclass(frozen=True)
class Emitted:
    """The output (time, batch, width) of a stack, and the final states of its layers."""

    output: str
    finals: AllStates


def emit_stack(
    graph: GraphBuilder, stack: Stack, x: str, lengths: str | None = None, initial: AllStates | None = None
) -> Emitted:
    """Add a stack of layers.

    Args:
        graph: Where they go.
        stack: The layers.
        x: (time, batch, input_size).
        lengths: (batch,), or None where every sequence is as long as x.
        initial: The states that the layers start from; None for those that the stack says.

    Returns:
        The output, zero beyond a sequence's length, and the final states.
    """
    if initial is None:
        initial = own_initial(graph, stack, x)
    padding = None if lengths is None else emit_padding(graph, x, lengths)
    if not stack.delay:
        return _emit_layers(graph, stack, x, padding, initial)
    later, later_padding = _lengthen(graph, stack, x, padding)
    found = _emit_layers(graph, stack, later, later_padding, initial)
    last = graph.integers([2**62])
    on_time = graph.add("Slice", found.output, graph.integers([stack.delay]), last, graph.integers([0]))
    return Emitted(on_time if padding is None else mask(graph, on_time, padding), found.finals)


def _lengthen(graph: GraphBuilder, stack: Stack, x: str, padding: Padding | None) -> tuple[str, Padding | None]:
    """x followed by as many steps of zeros as the delay, and lengths to match; an empty sequence stays empty."""
    if padding is not None:
        x = mask(graph, x, padding)
    later = graph.add("Pad", x, graph.integers([0, 0, 0, stack.delay, 0, 0]), graph.floats(0.0))
    if padding is None:
        return later, None
    longer = graph.add("Add", padding.lengths, graph.integers(stack.delay))
    empty = graph.add("Equal", padding.lengths, graph.integers(0))
    return later, emit_padding(graph, later, graph.add("Where", empty, padding.lengths, longer))


def _emit_layers(graph: GraphBuilder, stack: Stack, x: str, padding: Padding | None, initial: AllStates) -> Emitted:
    rising, finals = [x], []
    for layer, start in zip(stack.layers, initial, strict=True):
        read = graph.add("Concat", *rising[-2:], axis=-1) if stack.skip and len(rising) > 1 else rising[-1]
        output, final = emit_layer(graph, layer, read, padding, start)
        if layer.residual:
            output = graph.add("Add", output, read if padding is None else mask(graph, read, padding))
        rising.append(output)
        finals.append(final)
    return Emitted(rising[-1], finals)


def own_initial(graph: GraphBuilder, stack: Stack, x: str) -> AllStates:
    """The states that layers start from by themselves, for as many rows as x (time, batch, width) has: learned or 0."""
    rows = graph.add("Slice", graph.add("Shape", x), graph.integers([1]), graph.integers([2]))
    return [[_own_states(graph, one, rows) for one in layer.directions] for layer in stack.layers]


def _own_states(graph: GraphBuilder, recurrence: Recurrence, rows: str) -> States:
    sizes = recurrence.state_sizes
    values = recurrence.initial if recurrence.initial is not None else [0.0] * len(sizes)
    return [
        graph.add("Expand", graph.floats(value), graph.add("Concat", rows, graph.integers([size]), axis=0))
        for value, size in zip(values, sizes, strict=True)
    ]


def input_states(graph: GraphBuilder, stack: Stack, prefix: str = "initial_") -> AllStates:
    """An input (batch, width) of the graph for every state."""
    return [
        [
            [
                graph.input(prefix + name, FLOAT, ("batch", size))
                for name, size in zip(names, one.state_sizes, strict=True)
            ]
            for names, one in zip(of_layer, layer.directions, strict=True)
        ]
        for of_layer, layer in zip(state_names(stack), stack.layers, strict=True)
    ]


def output_states(graph: GraphBuilder, stack: Stack, states: AllStates, prefix: str = "final_") -> None:
    """An output (batch, width) of the graph for every state."""
    for of_layer, layer, found in zip(state_names(stack), stack.layers, states, strict=True):
        for names, one, values in zip(of_layer, layer.directions, found, strict=True):
            for name, value, size in zip(names, values, one.state_sizes, strict=True):
                graph.output(prefix + name, value, FLOAT, ("batch", size))
