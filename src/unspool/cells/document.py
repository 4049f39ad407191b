"""Equations as JSON and back: data from a closed set of operations, never code. What is read is checked by node."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from typing import Any

from unspool.cells import matrices
from unspool.cells.equations import Equations
from unspool.cells.numbers import is_whole
from unspool.cells.symbols import BINARY, CONDITIONS, UNARY, Graph, LinearMap, Symbol, as_number, elementwise
from unspool.cells.widths import MOST_FACTORS, ONE, factors, is_prefix
from unspool.errors import CellError

FORMAT = 1
ARITY = {**dict.fromkeys(UNARY, 1), **dict.fromkeys(BINARY + CONDITIONS, 2), "where": 3}
#: The operations whose width does not follow from what they read.
WITH_WIDTH = ("input", "extra", "state", "vector", "linear", "sum", "mean", "max", "columns", "expand", "view")
NAME = re.compile(r"\w+")


def dump(equations: Equations) -> str:
    """The equations as JSON; equal equations give equal text."""
    place = {node: index for index, node in enumerate(equations.nodes)}
    document = {
        "format": FORMAT,
        "title": equations.title,
        "sizes": dict(equations.sizes),
        "states": dict(equations.states),
        "initial": dict(equations.initial),
        "parameters": {name: list(widths) for name, widths in equations.parameters.items()},
        "nodes": [_dump_node(node, place) for node in equations.nodes],
        "named": {name: place[node] for name, node in equations.named.items()},
        "results": [place[node] for node in equations.results],
        **({"inputs": dict(equations.inputs)} if equations.inputs else {}),
    }
    return json.dumps(document, ensure_ascii=False, separators=(",", ":"))


def _dump_node(node: Symbol, place: Mapping[Symbol, int]) -> dict[str, Any]:
    entry: dict[str, Any] = {"operation": node.operation}
    if node.inputs:
        entry["inputs"] = [place[value] for value in node.inputs]
    if node.operation in WITH_WIDTH:
        entry["width"] = node.width
    if isinstance(node.detail, LinearMap):
        entry |= {"name": node.detail.name, "matrices": list(node.detail.matrices), "bias": node.detail.bias}
    elif node.detail is not None:
        entry["detail"] = repr(node.detail) if isinstance(node.detail, float) else node.detail
    return entry


def load(text: str) -> Equations:
    """Equations from JSON; a wrong document is refused by the name of the offending entry."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise CellError(f"the equations are not JSON: {error}. Write them by unspool.cells.document.dump.") from error
    try:
        equations = _Reader(document).equations()
    except (TypeError, ValueError, OverflowError, AttributeError, KeyError) as error:
        raise CellError(
            f"the equations' document is wrong: {error}. Write it by unspool.cells.document.dump."
        ) from error
    _check_all_is_understood(json.loads(dump(equations)), document)
    return equations


def _check_all_is_understood(again: dict[str, Any], document: dict[str, Any]) -> None:
    """What is understood, written again, must be all that was written."""
    for index, (entry, written) in enumerate(zip(again["nodes"], document["nodes"], strict=True)):
        if entry != written:
            raise CellError(f"node {index} ({entry['operation']!r}) says what equations cannot say, or says it twice.")
    for name in (*again, *document):
        if again.get(name) != document.get(name) or name not in again:
            raise CellError(f"the equations' entry {name!r} says what equations cannot say, or says it twice.")


class _Reader:
    def __init__(self, document: Any) -> None:
        if not isinstance(document, dict) or document.get("format") != FORMAT:
            raise CellError(f"the equations are not of format {FORMAT}. Write them again with this version.")
        self.document: Mapping[str, Any] = document
        self.graph = Graph()
        self.nodes: list[Symbol] = []
        self.title = self._entry("title", str)
        self.sizes: dict[str, int | str] = self._entry("sizes", dict)
        self.states: dict[str, str] = self._entry("states", dict)
        self.inputs: dict[str, str] = self._entry("inputs", dict) if "inputs" in document else {}
        self.parameters: dict[str, list[str]] = self._entry("parameters", dict)
        self.widths = {"input", "hidden", *self.sizes}
        self.names = list(self.widths)  # a list can be asked for anything
        self.used: dict[str, tuple[str | None, ...]] = {}
        self.maps: list[LinearMap] = []

    def equations(self) -> Equations:
        self._check_names()
        self._read_nodes()
        self._check_parameters()
        results = self._results()
        named = self._named_values(results)
        self._check_initial()
        return Equations(
            title=self.title,
            sizes=self.sizes,
            states=self.states,
            parameters={name: tuple(widths) for name, widths in self.parameters.items()},
            initial=self._entry("initial", dict),
            nodes=tuple(self.nodes),
            named=named,
            results=results,
            inputs=self.inputs,
        )

    def _check_names(self) -> None:
        """There are states, every name is one, and sizes can be held in memory."""
        if not self.states or not all(
            self._named(name) for name in (*self.states, *self.sizes, *self.parameters, *self.inputs)
        ):
            raise CellError("the equations have no states, or a name that is not of letters, digits and underscores.")
        for name, size in self.sizes.items():
            self._check_size(name, size)

    def _check_size(self, name: str, size: Any) -> None:
        fits = self._is_fraction(size) if isinstance(size, str) else is_whole(size) and 1 <= size < 2**31
        if not fits:
            raise CellError(f"size {name!r} is {size!r}, not a whole number from 1 on that memory could hold.")
        if name in ("input", "hidden", ONE):
            raise CellError(f"size {name!r} of {self.title} hides the layer's own.")

    def _is_fraction(self, size: str) -> bool:
        """Whether a size is such as "hidden/heads"; the part is a number of the cell's own."""
        whole, _, part = size.partition("/")
        return whole in ("input", "hidden") and is_whole(self.sizes.get(part))

    def _read_nodes(self) -> None:
        """Every node, after the nodes that it reads; the input and the states come first."""
        entries = self._entry("nodes", list)
        if [entry.get("operation") for entry in entries if isinstance(entry, dict)].count("input") != 1:
            raise CellError(f"{self.title} does not have one input.")
        for index, entry in enumerate(entries):
            self.nodes.append(self._read_node(index, entry))
        given = [
            ("input", None),
            *(("state", state) for state in self.states),
            *(("extra", name) for name in self.inputs),
        ]
        if [(node.operation, node.detail) for node in self.nodes[: len(given)]] != given:
            raise CellError(f"the nodes of {self.title} do not begin with the input and the states, in their order.")

    def _read_node(self, index: int, entry: Any) -> Symbol:
        try:
            return self._node(entry)
        except (CellError, KeyError, TypeError, ValueError, OverflowError, StopIteration) as error:
            said = entry.get("operation") if isinstance(entry, dict) else entry
            raise CellError(f"node {index} ({said!r}) of {self.title} is wrong: {error}") from error

    def _check_parameters(self) -> None:
        """Every parameter that is used is declared, with the widths of its use."""
        for name, widths in self.parameters.items():
            if not self._are_widths(name, widths) or _shape_of_use(widths) != self.used.get(
                name, _shape_of_use(widths)
            ):
                raise CellError(f"parameter {name!r} of {self.title} has widths {widths!r}, not those of its use.")
        if missing := set(self.used) - set(self.parameters):
            raise CellError(f"parameter {min(missing)!r} of {self.title} is used but not declared.")

    def _are_widths(self, name: str, widths: Any) -> bool:
        """Whether an entry is the widths of a vector, of a matrix or of the blocks of one."""
        most = 3 if name.startswith("D_") else 2
        return isinstance(widths, list) and 1 <= len(widths) <= most and all(map(self._is_width, widths))

    def _is_width(self, width: Any) -> bool:
        parts = factors(width) if isinstance(width, str) else (width,)
        return len(parts) <= MOST_FACTORS and all(part in self.names for part in parts)

    def _results(self) -> tuple[Symbol, ...]:
        """The new states, as wide as the old ones."""
        results = tuple(self._at(index, "results") for index in self._entry("results", list))
        if [value.width for value in results] != list(self.states.values()):
            raise CellError(f"the results of {self.title} do not have the widths of its states.")
        return results

    def _named_values(self, results: tuple[Symbol, ...]) -> dict[str, Symbol]:
        """Every value with a name; each new state has its own."""
        named = {str(name): self._at(index, "named") for name, index in self._entry("named", dict).items()}
        if not all(map(self._named, named)):
            raise CellError(f"a named value of {self.title} has a name that is not of letters, digits and underscores.")
        if not all(map(_is_vector, (*results, *named.values()))):
            raise CellError(f"a result or a named value of {self.title} is not a vector.")
        for state, value in zip(self.states, results, strict=True):
            if named.get(state) is not value:
                raise CellError(f"state {state!r} of {self.title} is not named, or its name is another value's.")
        return named

    def _check_initial(self) -> None:
        """Every vector has a finite first value, and nothing else has one."""
        initial = self._entry("initial", dict)
        for name, value in initial.items():
            if not isinstance(value, float) or not math.isfinite(value):
                raise CellError(f"the first value of {name!r} of {self.title} is {value!r}, not a number.")
        self._check_vectors(initial)

    def _check_vectors(self, initial: Mapping[str, float]) -> None:
        vectors = {node.detail for node in self.nodes if node.operation == "vector"}
        others = set(self.used) - vectors
        blocks = {name for name in vectors if len(self.parameters[name]) == 3}  # those start at random
        for name in (*vectors - blocks, *initial):
            if name not in initial or name in others or len(self.parameters.get(name, ())) != 1:
                raise CellError(f"parameter {name!r} of {self.title} is a vector without a first value, or no vector.")

    def _node(self, entry: dict[str, Any]) -> Symbol:
        operation = entry["operation"]
        inputs = tuple(self._before(index) for index in entry.get("inputs", []))
        match operation:
            case "input":
                return self.graph.node("input", width=self._width(entry))
            case "state":
                return self._state(entry)
            case "vector":
                self._use(entry["detail"], (self._width(entry),))
                return self.graph.node("vector", width=self._width(entry), detail=entry["detail"])
            case "constant":
                return self.graph.node("constant", detail=as_number(float(entry["detail"])))
            case "linear":
                return self._linear(entry, inputs)
            case "extra":
                return self._extra(entry)
            case operation if operation in SHAPED:
                return self._shaped(operation, entry, inputs)
        return self._elementwise(operation, entry, inputs)

    def _extra(self, entry: dict[str, Any]) -> Symbol:
        if self.inputs.get(entry["detail"]) != entry["width"] or "hidden" in self._width(entry):
            raise CellError(f"input {entry['detail']!r} is not declared with this width")
        return self.graph.node("extra", width=self._width(entry), detail=entry["detail"])

    def _shaped(self, operation: str, entry: dict[str, Any], inputs: tuple[Symbol, ...]) -> Symbol:
        """A sum over units or an operation on matrices: its function says whether the widths fit."""
        if SHAPED[operation][0] != len(inputs):
            raise CellError(f"{len(inputs)} inputs do not fit")
        if not all(map(_is_vector, inputs)):
            raise CellError("an operand is not a vector")
        widths = (self._width(entry),) if operation in WITH_WIDTH else ()
        return SHAPED[operation][1](*inputs, *widths)

    def _state(self, entry: dict[str, Any]) -> Symbol:
        if self.states.get(entry["detail"]) != entry["width"]:
            raise CellError(f"state {entry['detail']!r} is not declared with this width")
        return self.graph.node("state", width=self._width(entry), detail=entry["detail"])

    def _elementwise(self, operation: str, entry: dict[str, Any], inputs: tuple[Symbol, ...]) -> Symbol:
        if ARITY.get(operation) != len(inputs):
            raise CellError("no such operation" if operation not in ARITY else f"{len(inputs)} inputs do not fit")
        if all(value.width is None for value in inputs):
            raise CellError("it computes with numbers alone")
        detail = as_number(float(entry["detail"])) if operation == "normalise" else None
        return elementwise(operation, *inputs, detail=detail)

    def _linear(self, entry: dict[str, Any], inputs: tuple[Symbol, ...]) -> Symbol:
        linear = LinearMap(entry["name"], tuple(entry["matrices"]), entry["bias"])
        self._check_linear(linear, inputs)
        width = self._width(entry)
        for matrix, value in zip(linear.matrices, inputs, strict=True):
            self._use(matrix, (width, value.width))
        if linear.bias is not None:
            self._use(linear.bias, (width,))
        return self.graph.node("linear", inputs, width, linear)

    def _check_linear(self, linear: LinearMap, inputs: tuple[Symbol, ...]) -> None:
        if len(linear.matrices) != len(inputs) or not inputs:
            raise CellError("it does not have one matrix an operand")
        if not self._named(linear.name) or len({id(value) for value in inputs}) < len(inputs):
            raise CellError("its name is not of letters, digits and underscores, or it reads a value twice")
        self._check_matrices(linear)
        if not all(map(_is_vector, inputs)):
            raise CellError("an operand is not a vector")

    def _check_matrices(self, linear: LinearMap) -> None:
        """Every matrix belongs to one place of one map, which may be applied several times."""
        for place, matrix in enumerate(linear.matrices if linear not in self.maps else ()):
            if matrix in self.used or matrix in linear.matrices[:place]:
                raise CellError(f"its matrix {matrix!r} has another use")
        self.maps.append(linear)

    def _use(self, name: str, widths: tuple[str | None, ...]) -> None:
        if self.used.setdefault(name, widths) != widths:
            raise CellError(f"parameter {name!r} is used with two shapes")

    def _before(self, index: Any) -> Symbol:
        if not is_whole(index) or not 0 <= index < len(self.nodes):
            raise CellError(f"its input {index!r} does not stand before it")
        return self.nodes[index]

    def _at(self, index: Any, where: str) -> Symbol:
        if not is_whole(index) or not 0 <= index < len(self.nodes):
            raise CellError(f"{where} of {self.title} names node {index!r}, which does not exist.")
        return self.nodes[index]

    def _width(self, entry: dict[str, Any]) -> str:
        width = entry["width"]
        if not self._is_width(width):
            raise CellError(f"the width {width!r} is not declared")
        return str(width)

    def _entry(self, name: str, kind: type) -> Any:
        value = self.document.get(name)
        if not isinstance(value, kind):
            raise CellError(f"the equations' entry {name!r} is {value!r}, not of type {kind.__name__}.")
        return value

    @staticmethod
    def _named(name: object) -> bool:
        return isinstance(name, str) and NAME.fullmatch(name) is not None


def _shape_of_use(widths: list[str]) -> tuple[str, ...]:
    """How a parameter is used: blocks as one long vector."""
    return ("*".join(widths),) if len(widths) == 3 else tuple(widths)


def _expand(v: Symbol, width: str) -> Symbol:
    if not is_prefix(str(v.width), width) or v.width in (ONE, width):
        raise CellError(f"it cannot be brought to the width {width!r}")
    return v.graph.node("expand", (v,), width)


def _largest(v: Symbol, width: str) -> Symbol:
    if width != ONE:
        raise CellError(f"its width is {width!r}, not {ONE!r}")
    return matrices.max_units(v)


def _view(v: Symbol, width: str) -> Symbol:
    if v.width == width:
        raise CellError("it is as wide already")
    return v.graph.node("view", (v,), width)


#: Operations whose results have a width of their own: the number of inputs, and what makes them.
SHAPED: Mapping[str, tuple[int, Callable[..., Symbol]]] = {
    "sum": (1, matrices.sum_units),
    "mean": (1, matrices.mean_units),
    "max": (1, _largest),
    "outer": (2, matrices.outer),
    "matvec": (2, matrices.matvec),
    "vecmat": (2, matrices.vecmat),
    "columns": (1, matrices.columns_of),
    "expand": (1, _expand),
    "view": (1, _view),
}


def _is_vector(value: Symbol) -> bool:
    return value.width is not None and value.operation not in CONDITIONS
