"""The engine's graph: equations lowered to elementwise operations, affine maps and sums over a row."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from unspool.cells.equations import Equations
from unspool.cells.symbols import FUNCTIONS, Symbol
from unspool.cells.widths import ONE, all_but, at_places, factors

#: The width of one number a row, such as a sum over the row's units.
ROW = ONE

LEAVES = frozenset(
    {
        "x",  # the input
        "extra",  # a further input; detail: its index
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
        *(*FUNCTIONS, "absolute", "less", "less_equal", "where"),
    }
)
#: A value per row or column as a matrix, or under another width: read from memory where it is used.
INDEXED = frozenset({"expand", "view"})
#: What is complete only when all units of a row are known.
COLLECTED = frozenset({"row_sum", "row_max", "reduce", "cumsum"})


@dataclass(frozen=True, eq=False)
class Node:
    """A value: an operation on other values. Besides the elementwise operations there are

    - map: an affine map of its inputs; detail: its LinearMap
    - back: Σ gradient · matrix over its inputs, gradients of maps; detail: the maps' matrices
    - row_sum, row_max: the sum over a row's units, the largest of them
    - expand: out[i, j] = v[i] or v[j]; detail: the places of v's factors among those of its width
    - reduce: the sum over the other factors of its input's width; detail: the places of those that stay
    - view: the same numbers under another width
    - cumsum: sums of a row's units from the first on, or with detail True from the last on
    - widen: a number a row as a value of its width
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

    def reduce(self, value: Node, kept: tuple[int, ...]) -> Node:
        """The sum over all factors of a value's width but those at the places `kept`."""
        if not kept:
            return self.row_sum(value)
        return self.node("reduce", value, width=at_places(str(value.width), kept), detail=kept)

    def expand(self, value: Node, width: str, kept: tuple[int, ...]) -> Node:
        """A value that has the factors of `width` at the places `kept`, for all others."""
        return self.node("expand", value, width=width, detail=kept)

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
    for symbol in equations.nodes:
        node = _lower_one(graph, symbol, tuple(known[value] for value in symbol.inputs), equations)
        known[symbol] = node
    results = tuple(known[symbol] for symbol in equations.results)
    named = {name: known[symbol] for name, symbol in equations.named.items()}
    return Lowered(equations, graph, order((*results, *named.values())), results, named)


def _lower_one(graph: Graph, symbol: Symbol, inputs: tuple[Node, ...], equations: Equations) -> Node:
    match symbol.operation:
        case "input":
            return graph.node("x", width=symbol.width)
        case "state":
            return graph.node("before", width=symbol.width, detail=list(equations.states).index(symbol.detail))
        case "linear":
            return graph.node("map", *inputs, width=symbol.width, detail=symbol.detail)
        case "constant" | "vector":
            return graph.node(symbol.operation, width=symbol.width, detail=symbol.detail)
        case "extra":
            return graph.node("extra", width=symbol.width, detail=list(equations.inputs).index(symbol.detail))
        case operation if operation in LOWERED:
            return LOWERED[operation](graph, symbol, *inputs)
        case operation:
            return graph.node(operation, *inputs)


def _lower_normalise(graph: Graph, symbol: Symbol, v: Node) -> Node:
    """(v − mean) / √(variance + ε), over the units of a row."""
    assert symbol.width is not None
    centerd = graph.node("subtract", v, graph.mean(v, symbol.width))
    variance = graph.mean(graph.node("multiply", centerd, centerd), symbol.width)
    deviation = graph.node("sqrt", graph.node("add", variance, graph.constant(symbol.detail)))
    return graph.node("divide", centerd, deviation)


def _lower_softmax(graph: Graph, _symbol: Symbol, v: Node) -> Node:
    """eᵛ / Σ eᵛ, both parts divided by the e of the largest, which has no say in the gradient."""
    largest = graph.node("row_max", v, width=ROW, detail="fixed")
    e = graph.node("exp", graph.node("subtract", v, largest))
    return graph.node("divide", e, graph.row_sum(e))


def _lower_sum(graph: Graph, symbol: Symbol, v: Node) -> Node:
    kept = range(len(factors(str(symbol.width))))
    total = graph.reduce(v, tuple(kept))
    if symbol.operation == "sum":
        return total
    rest = at_places(str(v.width), range(len(kept), len(factors(str(v.width)))))
    return graph.node("multiply", total, graph.node("per_unit", detail=rest))


def _lower_outer(graph: Graph, symbol: Symbol, a: Node, b: Node) -> Node:
    width = str(symbol.width)
    rows, columns = graph.expand(a, width, all_but(width, -1)), graph.expand(b, width, all_but(width, -2))
    return graph.node("multiply", rows, columns)


def _lower_matvec(graph: Graph, _symbol: Symbol, matrix: Node, v: Node) -> Node:
    width = str(matrix.width)
    product = graph.node("multiply", matrix, graph.expand(v, width, all_but(width, -2)))
    return graph.reduce(product, all_but(width, -1))


def _lower_vecmat(graph: Graph, _symbol: Symbol, v: Node, matrix: Node) -> Node:
    width = str(matrix.width)
    product = graph.node("multiply", matrix, graph.expand(v, width, all_but(width, -1)))
    return graph.reduce(product, all_but(width, -2))


def _lower_expand(graph: Graph, symbol: Symbol, v: Node) -> Node:
    width = str(symbol.width)
    kept = tuple(range(len(factors(str(v.width))))) if symbol.operation == "expand" else all_but(width, -2)
    return graph.expand(v, width, kept)


#: What is made of several of the engine's operations, or has a width of its own.
LOWERED: dict[str, Callable[..., Node]] = {
    "normalise": _lower_normalise,
    "softmax": _lower_softmax,
    "cumsum": lambda graph, symbol, v: graph.node("cumsum", v, width=symbol.width, detail=False),
    "sum": _lower_sum,
    "mean": _lower_sum,
    "max": lambda graph, _, v: graph.node("row_max", v, width=ROW),
    "outer": _lower_outer,
    "matvec": _lower_matvec,
    "vecmat": _lower_vecmat,
    "expand": _lower_expand,
    "columns": _lower_expand,
    "view": lambda graph, symbol, v: graph.node("view", v, width=symbol.width),
}


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
