"""One recurrent layer in ONNX: its own operator where the equations are that operator's, a `Scan` otherwise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from unspool.exchange.onnx.graph import FLOAT, GraphBuilder
from unspool.exchange.onnx.operators import Match, match_operator
from unspool.exchange.onnx.step import StepEmitter
from unspool.runtime.network import Layer, Recurrence

#: The states of a recurrence, by name, each (batch, width).
States = list[str]


@dataclass(frozen=True)
class Padding:
    """Where sequences are over.

    Attributes:
        lengths: (batch,), whole numbers.
        valid: (time, batch, 1): whether a step is within its sequence.
    """

    lengths: str
    valid: str


def emit_padding(graph: GraphBuilder, x: str, lengths: str) -> Padding:
    """The padding of sequences x (time, batch, width) of these lengths."""
    steps = graph.add("Gather", graph.add("Shape", x), graph.integers(0), axis=0)
    places = graph.add("Range", graph.integers(0), steps, graph.integers(1))
    valid = graph.add("Less", graph.add("Unsqueeze", places, graph.integers([1])), lengths)
    return Padding(lengths, graph.add("Unsqueeze", valid, graph.integers([2])))


def emit_layer(
    graph: GraphBuilder, layer: Layer, x: str, padding: Padding | None, initial: Sequence[States]
) -> tuple[str, list[States]]:
    """Add a layer without its residual connection.

    Args:
        graph: Where it goes.
        layer: The layer.
        x: (time, batch, input_size).
        padding: None where every sequence is as long as x.
        initial: The states of each direction.

    Returns:
        The output (time, batch, width), zero beyond a sequence's length, and the final states of each direction.
    """
    matches = [match_operator(direction) for direction in layer.directions]
    whole = [match for match in matches if match is not None]
    if len(whole) == len(matches) and _are_one(layer, whole):
        return _emit_operator(graph, layer, whole, x, padding, initial)
    each = [_emit_scan(graph, *one, x, padding) for one in zip(layer.directions, initial, strict=True)]
    outputs = [output for output, _ in each]
    output = graph.add("Concat", *outputs, axis=-1) if len(outputs) > 1 else outputs[0]
    return output, [final for _, final in each]


def _are_one(layer: Layer, matches: Sequence[Match]) -> bool:
    """Whether the directions of a layer fit into one operator."""
    kinds = {(match.name, str(match.attributes)) for match in matches}
    sizes = {(one.input_size, one.hidden_size) for one in layer.directions}
    reverse = [one.reverse for one in layer.directions]
    return len(kinds) == len(sizes) == 1 and (len(reverse) == 1 or reverse == [False, True])


def _emit_operator(
    graph: GraphBuilder,
    layer: Layer,
    matches: Sequence[Match],
    x: str,
    padding: Padding | None,
    initial: Sequence[States],
) -> tuple[str, list[States]]:
    first, count = layer.directions[0], len(matches)
    order = [match.order for match in matches]
    starts = [
        _stack(graph, [states[places[index]] for states, places in zip(initial, order, strict=True)])
        for index in range(len(order[0]))
    ]
    lengths = "" if padding is None else graph.add("Cast", padding.lengths, to=6)  # INT32
    attributes = dict(matches[0].attributes)
    if "activations" in attributes:
        attributes["activations"] = attributes["activations"] * count
    attributes["direction"] = "bidirectional" if count == 2 else "reverse" if first.reverse else "forward"
    output, *finals = graph.add_many(
        matches[0].name,
        [x, *_weights(graph, matches), lengths, *starts],
        1 + len(starts),
        hidden_size=first.hidden_size,
        **attributes,
    )
    output = graph.add("Transpose", output, perm=[0, 2, 1, 3])
    output = graph.add("Reshape", output, graph.integers([0, 0, count * first.hidden_size]))
    if padding is not None:
        # What ONNX's operators give of a sequence that is over, or that is empty, is left to who computes them.
        output = mask(graph, output, padding)
        empty = graph.add("Equal", padding.lengths, graph.integers(0))
        empty = graph.add("Unsqueeze", empty, graph.integers([1]))
        finals = [graph.add("Where", empty, *both) for both in zip(starts, finals, strict=True)]
    return output, _unstack(graph, finals, order)


def _weights(graph: GraphBuilder, matches: Sequence[Match]) -> tuple[str, str, str]:
    """W, R and B of all directions; an empty B is one that is left out."""
    W, R = np.stack([match.W for match in matches]), np.stack([match.R for match in matches])
    B = ""
    if any(match.B is not None for match in matches):
        width = 2 * W.shape[1]
        B = graph.floats(np.stack([np.zeros(width) if match.B is None else match.B for match in matches]), "B")
    return graph.floats(W, "W"), graph.floats(R, "R"), B


def _stack(graph: GraphBuilder, states: Sequence[str]) -> str:
    """(directions, batch, width) of one state."""
    axis = graph.integers([0])
    parts = [graph.add("Unsqueeze", state, axis) for state in states]
    return graph.add("Concat", *parts, axis=0) if len(parts) > 1 else parts[0]


def _unstack(graph: GraphBuilder, finals: Sequence[str], order: Sequence[Sequence[int]]) -> list[States]:
    """The states of each direction, in the order of its own equations."""
    found: list[States] = []
    for direction, places in enumerate(order):
        states = [""] * len(places)
        for final, place in zip(finals, places, strict=True):
            states[place] = graph.add("Gather", final, graph.integers(direction), axis=0)
        found.append(states)
    return found


def _emit_scan(
    graph: GraphBuilder, recurrence: Recurrence, initial: States, x: str, padding: Padding | None
) -> tuple[str, States]:
    """A loop over the steps, whose body is the cell's; a sequence that is over keeps its states."""
    body = graph.body()
    sizes = recurrence.state_sizes
    before = [
        body.input(f"{name}_before", FLOAT, ("batch", size))
        for name, size in zip(_names(recurrence), sizes, strict=True)
    ]
    x_t = body.input("x_t", FLOAT, ("batch", recurrence.input_size))
    own = recurrence.input_size, recurrence.hidden_size
    after = StepEmitter(body, recurrence.equations, recurrence.parameters, own).emit(x_t, before)
    shown = after[0]
    if padding is not None:
        valid = body.input("valid_t", 9, ("batch", 1))  # BOOL
        after = [body.add("Where", valid, *both) for both in zip(after, before, strict=True)]
        shown = body.add("Where", valid, after[0], body.floats(0.0))
    for name, value, size in zip(_names(recurrence), after, sizes, strict=True):
        body.output(f"{name}_after", value, FLOAT, ("batch", size))
    body.output("shown_t", shown, FLOAT, ("batch", sizes[0]))
    scanned = [x] if padding is None else [x, padding.valid]
    way = int(recurrence.reverse)
    *finals, output = graph.add_many(
        "Scan",
        [*initial, *scanned],
        len(sizes) + 1,
        body=body.graph(f"{recurrence.equations.title}_step"),
        num_scan_inputs=len(scanned),
        scan_input_directions=[way] * len(scanned),
        scan_output_directions=[way],
    )
    return output, finals


def _names(recurrence: Recurrence) -> list[str]:
    return list(recurrence.equations.states)


def mask(graph: GraphBuilder, sequence: str, padding: Padding) -> str:
    """A sequence (time, batch, width) that is zero where it is over."""
    return graph.add("Where", padding.valid, sequence, graph.floats(0.0))
