"""Equations made from other equations: with masks on what matrices read, with states that stay, without biases.

Whatever a derived step needs besides the cell's own states and parameters comes after them: as further states or as
further vectors. So it runs wherever a cell runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from unspool.cells.equations import Equations
from unspool.cells.functions import where
from unspool.cells.symbols import Graph, LinearMap, Symbol, elementwise


def with_masks(equations: Equations) -> Equations:
    """The step with mask·s in place of a state s wherever a matrix reads s, or reads a product such as r·s.

    Each such state gets a mask, which is a further state that never changes. Other uses of s stay as they are.
    """
    factors = _factors(equations)
    maps = (node for node in equations.nodes if node.operation == "linear")
    read = {state for node in maps for operand in node.inputs for state in factors[operand]}
    masked = [state for state in equations.states if state in read]
    return _Draft(equations, "mask", masked, masked=True).equations()


def with_zoneout(equations: Equations, states: Sequence[str]) -> Equations:
    """The step after which every unit of these states has its new value or still its old one.

    Each of them gets a further state, a number from 0 up to 1 for every unit. Its binary digits say, one a step from
    the first on, whether the unit stays (1) or not (0).
    """
    draft = _Draft(equations, "stays", states)
    for state in states:
        doubled = 2 * draft.companions[state]
        stays = doubled >= 1
        draft.results[state] = where(stays, draft.before[state], draft.results[state])
        draft.results[draft.names[state]] = where(stays, doubled - 1, doubled)
    return draft.equations()


def with_expected_zoneout(equations: Equations, states: Sequence[str]) -> Equations:
    """The step that gives p·old + (1 − p)·new for these states; their p is a further vector each."""
    draft = _Draft(equations, "stays", states, vectors=True)
    for state in states:
        p = draft.companions[state]
        draft.results[state] = p * draft.before[state] + (1 - p) * draft.results[state]
    return draft.equations()


def without_biases(equations: Equations) -> Equations:
    """The step whose linear maps have no biases: what reading the cell without them gives."""
    graph = Graph()
    known: dict[Symbol, Symbol] = {}
    kept: set[str] = set()
    for node in equations.nodes:
        inputs = tuple(known[value] for value in node.inputs if not _is_bias(value))
        detail = node.detail
        kept.update(_parameters_without_bias(node))
        if isinstance(detail, LinearMap):
            detail = replace(detail, bias=None)
        if any(_is_bias(value) for value in node.inputs):  # of a block-diagonal map: value + bias
            known[node] = inputs[0]
        elif not _is_bias(node):
            known[node] = graph.node(node.operation, inputs, node.width, detail)
    # a map that nothing reads is not among the nodes, but its parameters are among the parameters
    dropped = {name for name in equations.parameters if name.startswith("b_") and name not in kept}
    return replace(
        equations,
        parameters={name: widths for name, widths in equations.parameters.items() if name not in dropped},
        initial={name: value for name, value in equations.initial.items() if name not in dropped},
        nodes=tuple(graph.nodes),
        named={name: known[value] for name, value in equations.named.items()},
        results=tuple(known[value] for value in equations.results),
    )


def _parameters_without_bias(node: Symbol) -> Sequence[str]:
    """The parameters that a node reads, but for the bias of a linear map."""
    if isinstance(node.detail, LinearMap):
        return node.detail.matrices
    return (node.detail,) if node.operation == "vector" and not _is_bias(node) else ()


def _is_bias(node: Symbol) -> bool:
    """Whether a value is the bias of a block-diagonal map; no other vector has such a name."""
    return node.operation == "vector" and str(node.detail).startswith("b_")


class _Draft:
    """A copy of equations in a graph of its own, in which some states have a companion: a state or a vector."""

    def __init__(
        self, equations: Equations, kind: str, states: Iterable[str], vectors: bool = False, masked: bool = False
    ) -> None:
        self.of, self.graph = equations, Graph()
        taken = {*equations.states, *equations.parameters, *equations.named}
        self.names = {state: _free(f"{kind}_{state}", taken) for state in states}
        widths = {name: equations.states[state] for state, name in self.names.items()}
        self.states = {**equations.states, **({} if vectors else widths)}
        self.vectors = widths if vectors else {}
        self.x = self.graph.node("input", width=equations.nodes[0].width)
        self.before = self._nodes("state", self.states)
        made = self._nodes("vector", self.vectors)
        self.companions = {state: (made or self.before)[name] for state, name in self.names.items()}
        self._known = self._copy(self.companions if masked else {})
        self.results = {
            **self.before,
            **{state: self._known[value] for state, value in zip(equations.states, equations.results, strict=True)},
        }

    def _nodes(self, operation: str, widths: Mapping[str, str]) -> dict[str, Symbol]:
        return {name: self.graph.node(operation, width=width, detail=name) for name, width in widths.items()}

    def equations(self) -> Equations:
        """The draft, without what is not used any more."""
        results = {state: self.results[state] for state in self.states}
        named = {**{name: self._known[value] for name, value in self.of.named.items()}, **results}
        extras = (self._known[node] for node in self.of.nodes if node.operation == "extra")
        place = self._needed({self.x, *self.before.values(), *extras, *named.values()})
        return Equations(
            title=self.of.title,
            sizes=self.of.sizes,
            states=self.states,
            parameters={**self.of.parameters, **{name: (width,) for name, width in self.vectors.items()}},
            initial={**self.of.initial, **dict.fromkeys(self.vectors, 0.0)},
            nodes=tuple(place),
            named=dict(sorted(named.items(), key=lambda item: place[item[1]])),
            results=tuple(results.values()),
            inputs=self.of.inputs,
        )

    def _needed(self, needed: set[Symbol]) -> dict[Symbol, int]:
        """The symbols that are needed and those that they read, with their places."""
        for node in reversed(self.graph.nodes):
            if node in needed:
                needed.update(node.inputs)
        return {node: index for index, node in enumerate(self.graph.nodes) if node in needed}

    def _copy(self, masks: Mapping[str, Symbol]) -> dict[Symbol, Symbol]:
        """Every symbol's copy; linear maps read masked states."""
        known: dict[Symbol, Symbol] = {}
        read: dict[Symbol, Symbol] = {}  # what a linear map reads in its place
        for node in self.of.nodes:
            values = read if node.operation == "linear" else known
            inputs = tuple(values[value] for value in node.inputs)
            known[node] = read[node] = self.graph.node(node.operation, inputs, node.width, node.detail)
            if node.operation == "state" and node.detail in masks:
                read[node] = masks[node.detail] * known[node]
            elif node.operation == "multiply" and masks:
                read[node] = elementwise("multiply", *(read[value] for value in node.inputs))
        return known


def _factors(equations: Equations) -> dict[Symbol, frozenset[str]]:
    """For every value the names of the states that it is, or is a product of."""
    found: dict[Symbol, frozenset[str]] = {}
    for node in equations.nodes:
        if node.operation == "multiply":
            found[node] = found[node.inputs[0]] | found[node.inputs[1]]
        else:
            found[node] = frozenset([node.detail] if node.operation == "state" else [])
    return found


def _free(name: str, taken: set[str]) -> str:
    while name in taken:
        name += "_"
    return name
