"""The reverse of a step: gradients with respect to its states, maps and vectors, as a graph.

The forward pass keeps as little as it can. A value that the reverse needs is recomputed where it follows from the
states and from other kept values by elementwise operations, and kept (in a slot of the tape) only where it does not.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from unspool.cells.symbols import CONDITIONS, LinearMap
from unspool.engine.graph import COLLECTED, INDEXED, ROW, Graph, Lowered, Node, order

#: What a step is called with.
GIVEN = ("x", "extra", "before")
#: What the reverse has at hand without its being kept.
HELD = frozenset({"x", "extra", "before", "vector", "constant", "per_unit"})


@dataclass(frozen=True)
class Reversed:
    """The reverse graph's results. What is missing in a dict is zero."""

    slots: tuple[Node, ...]  # forward nodes that are kept, in the order of their slots
    d_maps: dict[Node, Node]  # gradient of each map's value
    d_before: dict[int, Node]  # gradient of each state before the step, without what comes through maps
    d_vectors: dict[str, Node]
    d_x: Node | None  # gradient of x, without what comes through maps
    d_extras: dict[int, Node]  # gradient of each further input
    operands: dict[Node, Node]  # forward operand of a map, neither x nor a state → its value in the reverse graph


def reverse(forward: Lowered) -> Reversed:
    """Differentiate backwards through one step."""
    return _Reverse(forward).reversed()


class _Reverse:
    def __init__(self, forward: Lowered) -> None:
        self.forward = forward
        self.graph = Graph(simplify=True)
        self.gradients: dict[Node, Node] = {}
        self.wanted = self._reached_by_parameters()

    def reversed(self) -> Reversed:
        for index, result in enumerate(self.forward.results):
            d_after = self.graph.node("d_after", width=result.width, detail=index)
            self._add(result, d_after)
        d_maps: dict[Node, Node] = {}
        readers = _find_readers(self.forward.nodes)
        for node in reversed(self.forward.nodes):
            if node.operation not in ("x", "before"):
                self._back(node, readers.get(node, ()))
            if node in self.gradients and node.operation == "map":
                d_maps[node] = self.gradients[node]
            elif node in self.gradients and node.operation not in (*GIVEN, "vector"):
                RULES[node.operation](self, node, self._of_all_units(node, self.gradients[node]))
        return self._with_slots(d_maps, self._operands(readers, d_maps))

    def _operands(self, readers: Mapping[Node, Sequence[Node]], d_maps: Mapping[Node, Node]) -> dict[Node, Node]:
        """The values, neither x nor states, that maps with a gradient had read."""
        return {
            operand: self._value(operand)
            for operand, maps in readers.items()
            if operand.operation not in ("x", "before") and any(reader in d_maps for reader in maps)
        }

    def _back(self, node: Node, readers: Sequence[Node]) -> None:
        """Pass the gradients of the maps that read a value back to it, by one product."""
        maps = [reader for reader in readers if reader in self.gradients]
        if maps:
            matrices = tuple(_matrix(reader, node) for reader in maps)
            gradients = tuple(self.gradients[reader] for reader in maps)
            self._add(node, self.graph.node("back", *gradients, width=node.width, detail=(node, matrices)))

    def _reached_by_parameters(self) -> set[Node]:
        """Nodes whose gradient anybody asks for: all but numbers."""
        return {node for node in self.forward.nodes if node.operation not in ("constant", "per_unit")}

    def _add(self, node: Node, gradient: Node) -> None:
        if node not in self.wanted:
            return
        if node.width == ROW and gradient.width not in (ROW, None):
            gradient = self.graph.row_sum(gradient)
        known = self.gradients.get(node)
        self.gradients[node] = gradient if known is None else self._op("add", known, gradient)

    def _op(self, operation: str, *inputs: Node) -> Node:
        return self.graph.node(operation, *inputs)

    def _number(self, value: float) -> Node:
        return self.graph.constant(value)

    def _value(self, node: Node) -> Node:
        """A placeholder for a forward value; `_with_slots` decides where it comes from."""
        if node.operation in ("constant", "per_unit"):
            return self.graph.node(node.operation, width=None, detail=node.detail)
        return self.graph.node("forward", width=node.width, detail=node)

    # How the gradient g of an elementwise node passes on to its inputs, by operation: `RULES` below lists these.

    def _through_add(self, node: Node, g: Node) -> None:
        for value in node.inputs:
            self._add(value, g)

    def _through_subtract(self, node: Node, g: Node) -> None:
        self._add(node.inputs[0], g)
        self._add(node.inputs[1], self._op("negative", g))

    def _through_multiply(self, node: Node, g: Node) -> None:
        a, b = node.inputs
        self._add(a, self._op("multiply", g, self._value(b)))
        self._add(b, self._op("multiply", g, self._value(a)))

    def _through_divide(self, node: Node, g: Node) -> None:
        part = self._op("divide", g, self._value(node.inputs[1]))
        self._add(node.inputs[0], part)
        self._add(node.inputs[1], self._op("negative", self._op("multiply", part, self._value(node))))

    def _through_negative(self, node: Node, g: Node) -> None:
        self._add(node.inputs[0], self._op("negative", g))

    def _through_sigmoid(self, node: Node, g: Node) -> None:
        op, y = self._op, self._value(node)
        self._add(node.inputs[0], op("multiply", g, op("multiply", y, op("subtract", self._number(1), y))))

    def _through_tanh(self, node: Node, g: Node) -> None:
        op, y = self._op, self._value(node)
        self._add(node.inputs[0], op("multiply", g, op("subtract", self._number(1), op("multiply", y, y))))

    def _through_relu(self, node: Node, g: Node) -> None:
        # the comparisons, here and below, are those that let NaN through as torch does
        zero = self._number(0)
        self._add(node.inputs[0], self._op("where", self._op("less_equal", self._value(node), zero), zero, g))

    def _through_exp(self, node: Node, g: Node) -> None:
        self._add(node.inputs[0], self._op("multiply", g, self._value(node)))

    def _through_log(self, node: Node, g: Node) -> None:
        self._add(node.inputs[0], self._op("divide", g, self._value(node.inputs[0])))

    def _through_sqrt(self, node: Node, g: Node) -> None:
        self._add(node.inputs[0], self._op("divide", g, self._op("multiply", self._number(2), self._value(node))))

    def _through_absolute(self, node: Node, g: Node) -> None:
        op, zero, v = self._op, self._number(0), self._value(node.inputs[0])
        flat = op("multiply", zero, g)  # torch's g · sign(v): NaN for an infinite g
        falling = op("where", op("less", v, zero), op("negative", g), flat)
        self._add(node.inputs[0], op("where", op("less", zero, v), g, falling))

    def _through_extreme(self, node: Node, g: Node) -> None:
        op, zero = self._op, self._number(0)
        a, b = (self._value(value) for value in node.inputs)
        if node.operation == "maximum":
            a, b = b, a
        half = op("multiply", self._number(0.5), g)  # at a tie each side takes half, as in torch
        for target, lower, upper in ((node.inputs[0], a, b), (node.inputs[1], b, a)):
            winning = op("where", op("less_equal", upper, lower), half, g)
            self._add(target, op("where", op("less", upper, lower), zero, winning))

    def _through_where(self, node: Node, g: Node) -> None:
        condition, zero = self._value(node.inputs[0]), self._number(0)
        self._add(node.inputs[1], self._op("where", condition, g, zero))
        self._add(node.inputs[2], self._op("where", condition, zero, g))

    def _through_comparison(self, node: Node, g: Node) -> None:
        """A step function has no gradient."""

    def _through_sin(self, node: Node, g: Node) -> None:
        self._add(node.inputs[0], self._op("multiply", g, self._op("cos", self._value(node.inputs[0]))))

    def _through_cos(self, node: Node, g: Node) -> None:
        slope = self._op("negative", self._op("sin", self._value(node.inputs[0])))
        self._add(node.inputs[0], self._op("multiply", g, slope))

    def _through_erf(self, node: Node, g: Node) -> None:
        op, v = self._op, self._value(node.inputs[0])
        bell = op("exp", op("negative", op("multiply", v, v)))
        self._add(node.inputs[0], op("multiply", g, op("multiply", self._number(2 / math.sqrt(math.pi)), bell)))

    def _through_softplus(self, node: Node, g: Node) -> None:
        self._add(node.inputs[0], self._op("multiply", g, self._op("sigmoid", self._value(node.inputs[0]))))

    def _through_log1p(self, node: Node, g: Node) -> None:
        below = self._op("add", self._value(node.inputs[0]), self._number(1))
        self._add(node.inputs[0], self._op("divide", g, below))

    # How it passes on where values have other widths. What is one number a row fits all of them as it is.

    def _through_reduce(self, node: Node, g: Node) -> None:
        value = node.inputs[0]
        fits = g.width in (ROW, None)
        self._add(value, g if fits else self.graph.expand(g, str(value.width), node.detail))

    def _through_expand(self, node: Node, g: Node) -> None:
        self._add(node.inputs[0], self.graph.reduce(self._wide(g, node), node.detail))

    def _through_view(self, node: Node, g: Node) -> None:
        value = node.inputs[0]
        fits = g.width in (ROW, None)
        self._add(value, g if fits else self.graph.node("view", g, width=value.width))

    def _through_cumsum(self, node: Node, g: Node) -> None:
        back = self.graph.node("cumsum", self._wide(g, node), width=node.width, detail=True)
        self._add(node.inputs[0], back)

    def _through_row_max(self, node: Node, g: Node) -> None:
        if node.detail == "fixed":
            return
        op, value = self._op, node.inputs[0]
        below = op("less", self._value(value), self._value(node))
        count = self.graph.row_sum(op("where", below, self._number(0), self._number(1)))
        self._add(value, op("where", below, self._number(0), op("divide", g, count)))  # equal ones share it

    def _of_all_units(self, node: Node, g: Node) -> Node:
        """A gradient that is the same number for all units, as one for each if it goes to a number that all read."""
        shared = node.width != ROW and any(value.width == ROW for value in node.inputs)
        return self._wide(g, node) if shared else g

    def _wide(self, g: Node, node: Node) -> Node:
        """A gradient as wide as its value."""
        return g if g.width == node.width else self.graph.node("widen", g, width=node.width)

    def _with_slots(self, d_maps: dict[Node, Node], operands: dict[Node, Node]) -> Reversed:
        """Replace the placeholders by states, recomputed values and slots."""
        leaves = {operation: self._gradients_of(operation) for operation in ("before", "vector", "x", "extra")}
        for index in range(len(self.forward.equations.inputs)):
            leaves["extra"].setdefault(index, self.graph.constant(0))
        of_leaves = [gradient for found in leaves.values() for gradient in found.values()]
        roots = (*d_maps.values(), *of_leaves, *operands.values())
        needed = {node.detail for node in order(roots) if node.operation == "forward"}
        keep = _Keep(self.graph, self.forward, needed)
        rewritten = self._rewrite(order(roots), keep)
        return Reversed(
            slots=tuple(keep.slots),
            d_maps={linear: rewritten[node] for linear, node in d_maps.items()},
            d_before={index: rewritten[gradient] for index, gradient in leaves["before"].items()},
            d_vectors={name: rewritten[gradient] for name, gradient in leaves["vector"].items()},
            d_x=next((rewritten[gradient] for gradient in leaves["x"].values()), None),
            d_extras={index: rewritten[gradient] for index, gradient in leaves["extra"].items()},
            operands={operand: rewritten[value] for operand, value in operands.items()},
        )

    def _gradients_of(self, operation: str) -> dict[Any, Node]:
        """The gradients of states, vectors or x, by what tells them apart."""
        return {node.detail: gradient for node, gradient in self.gradients.items() if node.operation == operation}

    def _rewrite(self, nodes: Iterable[Node], keep: _Keep) -> dict[Node, Node]:
        """Each node with what is kept in place of the placeholders that it reads."""
        rewritten: dict[Node, Node] = {}
        for node in nodes:
            if node.operation == "forward":
                rewritten[node] = keep.value(node.detail)
            else:
                inputs = tuple(rewritten[value] for value in node.inputs)
                rewritten[node] = self.graph.node(node.operation, *inputs, width=node.width, detail=node.detail)
        return rewritten


RULES: dict[str, Callable[[_Reverse, Node, Node], None]] = {
    "add": _Reverse._through_add,
    "subtract": _Reverse._through_subtract,
    "multiply": _Reverse._through_multiply,
    "divide": _Reverse._through_divide,
    "negative": _Reverse._through_negative,
    "sigmoid": _Reverse._through_sigmoid,
    "tanh": _Reverse._through_tanh,
    "relu": _Reverse._through_relu,
    "exp": _Reverse._through_exp,
    "log": _Reverse._through_log,
    "sqrt": _Reverse._through_sqrt,
    "absolute": _Reverse._through_absolute,
    "minimum": _Reverse._through_extreme,
    "maximum": _Reverse._through_extreme,
    "where": _Reverse._through_where,
    "row_sum": _Reverse._through_add,
    "row_max": _Reverse._through_row_max,
    "reduce": _Reverse._through_reduce,
    "expand": _Reverse._through_expand,
    "view": _Reverse._through_view,
    "cumsum": _Reverse._through_cumsum,
    "sin": _Reverse._through_sin,
    "cos": _Reverse._through_cos,
    "erf": _Reverse._through_erf,
    "softplus": _Reverse._through_softplus,
    "log1p": _Reverse._through_log1p,
    "less": _Reverse._through_comparison,
    "less_equal": _Reverse._through_comparison,
}


class _Keep:
    """Decides which forward values are kept, and gives each needed value as a node of the reverse graph."""

    def __init__(self, graph: Graph, forward: Lowered, needed: set[Node]) -> None:
        self.graph = graph
        self.slots: list[Node] = []
        self._known: dict[Node, Node] = {}
        self._after = {result: index for index, result in reversed(list(enumerate(forward.results)))}
        follows: set[Node] = set()  # what can be recomputed from what is at hand
        for node in forward.nodes:
            if self._is_held(node) or _follows_from(node, follows):
                follows.add(node)
            elif node in needed:
                self._keep_for(node, follows)

    def _keep_for(self, node: Node, follows: set[Node]) -> None:
        """Keep a value. A comparison is not a number, so what it compares is kept, and what a matrix repeats."""
        for value in node.inputs if node.operation in CONDITIONS or node.operation in INDEXED else (node,):
            if value not in follows:
                self._keep(value)
                follows.add(value)
        follows.add(node)

    def _keep(self, node: Node) -> None:
        self._known[node] = self.graph.node("stored", width=node.width, detail=len(self.slots))
        self.slots.append(node)

    def value(self, root: Node) -> Node:
        """The value as a node of the reverse graph."""
        pending = [root]
        while pending:
            node = pending[-1]
            missing = [] if self._is_held(node) else [value for value in node.inputs if value not in self._known]
            if missing:
                pending += missing
                continue
            pending.pop()
            if node not in self._known:
                self._known[node] = self._rebuild(node)
        return self._known[root]

    def _rebuild(self, node: Node) -> Node:
        """A value that is at hand or follows from known ones."""
        if node.operation in HELD:
            return self.graph.node(node.operation, width=node.width, detail=node.detail)
        if node in self._after:
            return self.graph.node("after", width=node.width, detail=self._after[node])
        inputs = (self._known[value] for value in node.inputs)
        return self.graph.node(node.operation, *inputs, width=node.width, detail=node.detail)

    def _is_held(self, node: Node) -> bool:
        return node in self._known or node in self._after or node.operation in HELD


def _follows_from(node: Node, known: set[Node]) -> bool:
    """Whether a value can be recomputed, by an elementwise operation, from what is known."""
    return node.operation != "map" and node.operation not in COLLECTED and all(value in known for value in node.inputs)


def _find_readers(nodes: Iterable[Node]) -> dict[Node, list[Node]]:
    """The maps that read each value."""
    readers: dict[Node, list[Node]] = {}
    for node in nodes:
        if node.operation == "map":
            for operand in node.inputs:
                readers.setdefault(operand, []).append(node)
    return readers


def _matrix(reader: Node, operand: Node) -> str:
    linear: LinearMap = reader.detail
    return linear.matrices[reader.inputs.index(operand)]
