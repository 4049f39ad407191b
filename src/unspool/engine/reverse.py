"""The reverse of a step: gradients with respect to its states, maps and vectors, as a graph.

The forward pass keeps as little as it can. A value that the reverse needs is recomputed where it follows from the
states and from other kept values by elementwise operations, and kept (in a slot of the tape) only where it does not.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from unspool.cells.symbols import CONDITIONS, LinearMap
from unspool.engine.graph import ROW, Graph, Lowered, Node, order

#: What the reverse has at hand without its being kept.
HELD = frozenset({"x", "before", "vector", "constant", "per_unit"})


@dataclass(frozen=True)
class Reversed:
    """The reverse graph's results. What is missing in a dict is zero."""

    slots: tuple[Node, ...]  # forward nodes that are kept, in the order of their slots
    d_maps: dict[LinearMap, Node]  # gradient of each map's value
    d_before: dict[int, Node]  # gradient of each state before the step, without what comes through maps
    d_vectors: dict[str, Node]
    d_x: Node | None  # gradient of x, without what comes through maps
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
        d_maps: dict[LinearMap, Node] = {}
        readers = _find_readers(self.forward.nodes)
        for node in reversed(self.forward.nodes):
            if node.operation not in ("x", "before"):
                self._back(node, readers.get(node, ()))
            if node in self.gradients:
                if node.operation == "map":
                    d_maps[node.detail] = self.gradients[node]
                elif node.operation not in ("x", "before", "vector"):
                    self._through(node, self.gradients[node])
        operands = {
            operand: self._value(operand)
            for operand, maps in readers.items()
            if operand.operation not in ("x", "before") and any(reader.detail in d_maps for reader in maps)
        }
        return self._with_slots(d_maps, operands)

    def _back(self, node: Node, readers: Sequence[Node]) -> None:
        """Pass the gradients of the maps that read a value back to it, by one product."""
        maps = [reader for reader in readers if reader in self.gradients]
        if maps:
            matrices = tuple(_matrix(reader, node) for reader in maps)
            gradients = tuple(self.gradients[reader] for reader in maps)
            self._add(node, self.graph.node("back", *gradients, width=node.width, detail=matrices))

    def _reached_by_parameters(self) -> set[Node]:
        """Nodes whose gradient anybody asks for: all but numbers."""
        return {node for node in self.forward.nodes if node.operation not in ("constant", "per_unit")}

    def _add(self, node: Node, gradient: Node) -> None:
        if node not in self.wanted:
            return
        if node.width == ROW and gradient.width != ROW:
            gradient = self.graph.row_sum(gradient)
        known = self.gradients.get(node)
        self.gradients[node] = gradient if known is None else self._op("add", known, gradient)

    def _op(self, operation: str, *inputs: Node) -> Node:
        return self.graph.node(operation, *inputs)

    def _value(self, node: Node) -> Node:
        """A placeholder for a forward value; `_with_slots` decides where it comes from."""
        if node.operation in ("constant", "per_unit"):
            return self.graph.node(node.operation, width=None, detail=node.detail)
        return self.graph.node("forward", width=node.width, detail=node)

    def _through(self, node: Node, g: Node) -> None:
        """Pass the gradient g of an elementwise node on to its inputs."""
        op, number = self._op, self.graph.constant
        inputs = node.inputs
        match node.operation:
            case "add":
                self._add(inputs[0], g)
                self._add(inputs[1], g)
            case "subtract":
                self._add(inputs[0], g)
                self._add(inputs[1], op("negative", g))
            case "multiply":
                self._add(inputs[0], op("multiply", g, self._value(inputs[1])))
                self._add(inputs[1], op("multiply", g, self._value(inputs[0])))
            case "divide":
                part = op("divide", g, self._value(inputs[1]))
                self._add(inputs[0], part)
                self._add(inputs[1], op("negative", op("multiply", part, self._value(node))))
            case "negative":
                self._add(inputs[0], op("negative", g))
            case "sigmoid":
                y = self._value(node)
                self._add(inputs[0], op("multiply", g, op("multiply", y, op("subtract", number(1), y))))
            case "tanh":
                y = self._value(node)
                self._add(inputs[0], op("multiply", g, op("subtract", number(1), op("multiply", y, y))))
            case "relu":
                # the comparisons, here and below, are those that let NaN through as torch does
                self._add(inputs[0], op("where", op("less_equal", self._value(node), number(0)), number(0), g))
            case "exp":
                self._add(inputs[0], op("multiply", g, self._value(node)))
            case "log":
                self._add(inputs[0], op("divide", g, self._value(inputs[0])))
            case "sqrt":
                self._add(inputs[0], op("divide", g, op("multiply", number(2), self._value(node))))
            case "absolute":
                v = self._value(inputs[0])
                flat = op("multiply", number(0), g)  # torch's g · sign(v): NaN for an infinite g
                falling = op("where", op("less", v, number(0)), op("negative", g), flat)
                self._add(inputs[0], op("where", op("less", number(0), v), g, falling))
            case "minimum" | "maximum":
                a, b = (self._value(value) for value in inputs)
                if node.operation == "maximum":
                    a, b = b, a
                half = op("multiply", number(0.5), g)  # at a tie each side takes half, as in torch
                for target, lower, upper in ((inputs[0], a, b), (inputs[1], b, a)):
                    winning = op("where", op("less_equal", upper, lower), half, g)
                    self._add(target, op("where", op("less", upper, lower), number(0), winning))
            case "where":
                condition = self._value(inputs[0])
                self._add(inputs[1], op("where", condition, g, number(0)))
                self._add(inputs[2], op("where", condition, number(0), g))
            case "row_sum":
                self._add(inputs[0], g)
            case "less" | "less_equal":
                pass  # a step function: no gradient
            case other:
                raise AssertionError(other)

    def _with_slots(self, d_maps: dict[LinearMap, Node], operands: dict[Node, Node]) -> Reversed:
        """Replace the placeholders by states, recomputed values and slots."""
        leaves = {
            node: gradient for node, gradient in self.gradients.items() if node.operation in ("x", "before", "vector")
        }
        roots = (*d_maps.values(), *leaves.values(), *operands.values())
        needed = {node.detail for node in order(roots) if node.operation == "forward"}
        keep = _Keep(self.graph, self.forward, needed)
        rewritten = self._rewrite(order(roots), keep)
        return Reversed(
            slots=tuple(keep.slots),
            d_maps={linear: rewritten[node] for linear, node in d_maps.items()},
            d_before={node.detail: rewritten[g] for node, g in leaves.items() if node.operation == "before"},
            d_vectors={node.detail: rewritten[g] for node, g in leaves.items() if node.operation == "vector"},
            d_x=next((rewritten[g] for node, g in leaves.items() if node.operation == "x"), None),
            operands={operand: rewritten[value] for operand, value in operands.items()},
        )

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


class _Keep:
    """Decides which forward values are kept, and gives each needed value as a node of the reverse graph."""

    def __init__(self, graph: Graph, forward: Lowered, needed: set[Node]) -> None:
        self.graph = graph
        self.slots: list[Node] = []
        self._known: dict[Node, Node] = {}
        self._after = {result: index for index, result in reversed(list(enumerate(forward.results)))}
        follows: set[Node] = set()  # what can be recomputed from what is at hand
        for node in forward.nodes:
            at_hand = node in self._known or node in self._after or node.operation in HELD
            fresh = node.operation not in ("map", "row_sum") and all(value in follows for value in node.inputs)
            if not at_hand and not fresh and node in needed:
                # a comparison is not a number, so what it compares is kept instead
                for value in node.inputs if node.operation in CONDITIONS else (node,):
                    if value not in follows:
                        self._keep(value)
                        follows.add(value)
                fresh = True
            if at_hand or fresh:
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
            if node in self._known:
                continue
            if node in self._after and node.operation not in HELD:
                self._known[node] = self.graph.node("after", width=node.width, detail=self._after[node])
            elif node.operation in HELD:
                self._known[node] = self.graph.node(node.operation, width=node.width, detail=node.detail)
            else:
                self._known[node] = self.graph.node(node.operation, *(self._known[value] for value in node.inputs))
        return self._known[root]

    def _is_held(self, node: Node) -> bool:
        return node in self._known or node in self._after or node.operation in HELD


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
