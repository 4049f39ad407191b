"""The engine's graph: equations lowered to elementwise operations, affine maps and sums over a row."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from unspool.cells.equations import Equations
from unspool.cells.symbols import Symbol

#: The width of one number a row, such as a sum over the row's units.
ROW = "one a row"  # not a name that a size can have

LEAVES = frozenset(
    {
        "x",  # the input
        "before",  # a state before the step; detail: its index
        "after",  # a state after the step; detail: its index
        "vector",  # a per-unit parameter; detail: its name
        "constant",  # detail: the number
        "per_unit",  # 1 / the number of units; detail: the width
        "stored",  # a value that the forward pass kept; detail: its slot
        "d_after",  # the gradient with respect to a state after the step; detail: its index
    }
)
ELEMENTWISE = frozenset(
    {
        *("add", "subtract", "multiply", "divide", "negative", "minimum", "maximum"),
        *("sigmoid", "tanh", "relu", "exp", "log", "sqrt", "absolute", "less", "less_equal", "where"),
    }
)


@dataclass(frozen=True, eq=False)
class Node:
    """A value: an operation on other values. Besides the elementwise operations there are

    - map: an affine map of its inputs; detail: its LinearMap
    - back: Σ gradient · matrix over its inputs, gradients of maps; detail: the maps' matrices
    - row_sum: the sum over a row's units
    """

    operation: str
    inputs: tuple[Node, ...]
    width: str | None
    detail: Any

    def is_number(self, value: float) -> bool:
        return self.operation == "constant" and self.detail == value


#: The number that changes nothing.
NEUTRAL = {"add": 0, "multiply": 1}


class Graph:
    """Makes nodes; equal expressions are one node. With `simplify`, x + 0 and x · 1 are x."""

    def __init__(self, simplify: bool = True) -> None:
        self._simplify = simplify
        self._interned: dict[tuple[object, ...], Node] = {}

    def node(self, operation: str, *inputs: Node, width: str | None = None, detail: Any = None) -> Node:
        """A node of this operation; an elementwise one takes its width from its inputs."""
        if operation in ELEMENTWISE:
            simple = self._simplified(operation, inputs) if self._simplify else None
            if simple is not None:
                return simple
            width = _joint_width(inputs)
        key = (operation, *map(id, inputs), width, detail)
        return self._interned.setdefault(key, Node(operation, inputs, width, detail))

    def constant(self, value: float) -> Node:
        return self.node("constant", detail=float(value))

    def row_sum(self, value: Node) -> Node:
        return self.node("row_sum", value, width=ROW)

    def mean(self, value: Node, width: str) -> Node:
        return self.node("multiply", self.row_sum(value), self.node("per_unit", width=None, detail=width))

    def _simplified(self, operation: str, inputs: tuple[Node, ...]) -> Node | None:
        if operation in NEUTRAL:
            a, b = inputs
            neutral = NEUTRAL[operation]
            return b if a.is_number(neutral) else a if b.is_number(neutral) else None
        if operation == "negative" and inputs[0].operation == "constant":
            return self.constant(-inputs[0].detail)
        return None


def _joint_width(inputs: Iterable[Node]) -> str | None:
    widths = {node.width for node in inputs} - {None}
    units = widths - {ROW}
    assert len(units) <= 1
    return next(iter(units or widths), None)


@dataclass(frozen=True)
class Lowered:
    """A cell's step as a graph of the engine."""

    equations: Equations
    graph: Graph
    nodes: tuple[Node, ...]  # each after its inputs
    results: tuple[Node, ...]
    named: dict[str, Node]


def lower(equations: Equations) -> Lowered:
    """Equations in the engine's operations: row-wise normalisation becomes sums over rows."""
    graph = Graph(simplify=False)  # a map that reads h and h + 0 has two operands
    known: dict[Symbol, Node] = {}
    states = list(equations.states)
    for symbol in equations.nodes:
        node = _lower_one(graph, symbol, tuple(known[value] for value in symbol.inputs), states)
        known[symbol] = node
    results = tuple(known[symbol] for symbol in equations.results)
    named = {name: known[symbol] for name, symbol in equations.named.items()}
    return Lowered(equations, graph, order((*results, *named.values())), results, named)


def _lower_one(graph: Graph, symbol: Symbol, inputs: tuple[Node, ...], states: list[str]) -> Node:
    match symbol.operation:
        case "input":
            return graph.node("x", width=symbol.width)
        case "state":
            return graph.node("before", width=symbol.width, detail=states.index(symbol.detail))
        case "linear":
            return graph.node("map", *inputs, width=symbol.width, detail=symbol.detail)
        case "normalise":
            return _lower_normalise(graph, symbol, inputs[0])
        case "constant" | "vector":
            return graph.node(symbol.operation, width=symbol.width, detail=symbol.detail)
        case operation:
            return graph.node(operation, *inputs)


def _lower_normalise(graph: Graph, symbol: Symbol, v: Node) -> Node:
    """(v − mean) / √(variance + ε), over the units of a row."""
    assert symbol.width is not None
    centerd = graph.node("subtract", v, graph.mean(v, symbol.width))
    variance = graph.mean(graph.node("multiply", centerd, centerd), symbol.width)
    deviation = graph.node("sqrt", graph.node("add", variance, graph.constant(symbol.detail)))
    return graph.node("divide", centerd, deviation)


def order(roots: Iterable[Node]) -> tuple[Node, ...]:
    """Every node that the roots need, each after its inputs."""
    seen: dict[Node, None] = {}
    pending = [(root, False) for root in reversed(list(roots))]
    while pending:
        node, ready = pending.pop()
        if node in seen:
            continue
        if ready:
            seen[node] = None
        else:
            pending.append((node, True))
            pending.extend((value, False) for value in reversed(node.inputs))
    return tuple(seen)
