"""Reading: runs a cell's `step` once, on symbols, and takes down what it does."""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Iterator, Mapping
from types import FrameType
from typing import Any, Protocol

from unspool.cells.equations import Equations
from unspool.cells.matrices import matvec
from unspool.cells.symbols import CONDITIONS, GIVEN, LEAVES, Graph, LinearMap, Symbol, symbol
from unspool.cells.widths import MOST_FACTORS, factors, join
from unspool.errors import CellError, UnspoolError

NAME = re.compile(r"[A-Za-z0-9]\w*")
RESERVED = re.compile(r"(W|U\d*|b)_")


class Readable(Protocol):
    """What a reading needs of a cell."""

    input_width: str
    inputs: Mapping[str, str]

    @property
    def sizes(self) -> Mapping[str, int | str]:
        """Sizes besides "input" and "hidden", by name."""

    @property
    def state_widths(self) -> Mapping[str, str]:
        """Widths of the states that are not "hidden" wide, by state."""

    @property
    def states(self) -> tuple[str, ...]:
        """The names of the states."""

    def step(self, *args: Any, **kwargs: Any) -> Any:
        """The equations."""


class Reading:
    """What one run of `step` on symbols has used so far: linear maps, vectors, names."""

    def __init__(self, cell: Readable, bias: bool) -> None:
        self.cell = cell
        self.bias = bias
        self.title = type(cell).__name__
        self.graph = Graph()
        self.parameters: dict[str, tuple[str, ...]] = {}
        self.initial: dict[str, float] = {}
        self.names: dict[str, Symbol] = {}
        self._maps: dict[str, Symbol] = {}

    def read(self, reader: Readable) -> Equations:
        """Run `step` of `reader`, a copy of the cell that knows this reading."""
        widths = {state: self.cell.state_widths.get(state, "hidden") for state in self.cell.states}
        for state, width in widths.items():
            self._check_width(f"state {state!r}", width)
        self._check_width("the input", self.cell.input_width)
        self._check_state_widths(widths)
        x = self.graph.node("input", width=self.cell.input_width)
        before = [self.graph.node("state", width=width, detail=state) for state, width in widths.items()]
        extras = self._extras(widths)
        try:
            returned, local_names = _call_and_see_names(reader, x, *before, **extras)
        except UnspoolError:
            raise
        except Exception as error:  # whatever the user's own code raises
            cause = f"{type(error).__name__}: {error}"
            raise CellError(
                f"`step` of {self.title} cannot be read as equations: {cause}. Combine values with + − × ÷, the "
                "functions of unspool.cells (sigmoid, tanh, exp, where, …), self.linear and self.vector."
            ) from error
        results = self._results(returned, widths)
        return self._equations(widths, results, local_names)

    def _extras(self, states: Mapping[str, str]) -> dict[str, Symbol]:
        """The further inputs by name; their widths are "input", "one" or the cell's own."""
        found = {}
        for name, width in self.cell.inputs.items():
            self._check_name("further input", name)
            self._check_width(f"input {name!r}", width)
            if name in states or name == "x" or self._varies(width):
                raise CellError(
                    f"`inputs` of {self.title} has {name!r} of width {width!r}. Give it a name of its own, and the "
                    "width 'one', 'input' or one of the cell's `sizes`."
                )
            found[name] = self.graph.node("extra", width=width, detail=name)
        return found

    def _varies(self, width: str) -> bool:
        """Whether a width depends on the hidden size."""
        return any(part == "hidden" or isinstance(self.cell.sizes.get(part), str) for part in factors(width))

    def _check_state_widths(self, widths: dict[str, str]) -> None:
        for state in self.cell.state_widths:
            if state not in widths:
                raise CellError(
                    f"`state_widths` of {self.title} names {state!r}, which is none of its states "
                    f"({', '.join(widths)}). Name a state, or leave it out."
                )

    def linear(self, name: str, operands: tuple[Symbol, ...], *, bias: bool, width: str, tied: bool = False) -> Symbol:
        """The value of an affine map, and its parameters taken down."""
        self._check_name("linear map", name)
        self._check_width(f"linear map {name!r}", width)
        if not operands:
            raise CellError(f"linear map {name!r} of {self.title} has no operand. Write self.linear({name!r}, x, h).")
        operands = tuple(self._operand(name, operand) for operand in operands)
        bias = bias and self.bias
        x = self.graph.nodes[0]
        if len(set(operands)) < len(operands):
            raise CellError(f"linear map {name!r} of {self.title} reads a value twice. Name each operand once.")
        linear = LinearMap(
            name, tuple(_name_matrices(name, [operand is x for operand in operands])), f"b_{name}" if bias else None
        )
        if tied and name in self._maps:
            return self._again(self._maps[name], operands, linear.bias, width)
        matrices = linear.matrices
        value = self.graph.node("linear", operands, width, linear)
        self._check_once(name, value)
        for matrix, operand in zip(matrices, operands, strict=True):
            assert operand.width is not None
            self.parameters[matrix] = (width, operand.width)
        if bias:
            self.parameters[f"b_{name}"] = (width,)
        return value

    def _again(self, first: Symbol, operands: tuple[Symbol, ...], bias: str | None, width: str) -> Symbol:
        """A map applied once more: its matrices belong to operands by their places."""
        same = [operand.width for operand in operands] == [operand.width for operand in first.inputs]
        if not same or (first.detail.bias, first.width) != (bias, width):
            raise CellError(
                f"linear map {first.detail.name!r} of {self.title} is tied, but named with operands or options of "
                "other widths. Give as many operands of the same widths, in the same order."
            )
        return self.graph.node("linear", operands, width, first.detail)

    def block_linear(self, name: str, v: Symbol, *, bias: bool, width: str | None) -> Symbol:
        """A linear map head by head, and its blocks taken down."""
        self._check_name("linear map", name)
        v = self._operand(name, v)
        parts = factors(str(v.width))
        if len(parts) < 2:
            raise CellError(
                f"block_linear {name!r} of {self.title} reads a value of width {v.width!r}. Give it one such as "
                "'heads*head', by self.reshape(value, 'heads*head')."
            )
        *heads, old = parts
        shape = (join(heads), width or old, old)
        self._check_width(f"linear map {name!r}", "*".join(shape))
        if self.parameters.setdefault(f"D_{name}", shape) != shape:
            raise CellError(f"block_linear {name!r} of {self.title} is named twice with other widths. Rename one.")
        value = matvec(self.graph.node("vector", width="*".join(shape), detail=f"D_{name}"), v)
        if not (bias and self.bias):
            return value
        self.parameters[f"b_{name}"] = (str(value.width),)
        self.initial[f"b_{name}"] = 0.0
        return value + self.graph.node("vector", width=value.width, detail=f"b_{name}")

    def reshape(self, v: Symbol, width: str) -> Symbol:
        """A value under another width; whether the sizes fit is known where there are sizes."""
        self._check_width("a value", width)
        v = self._operand("reshape", v)
        return v if v.width == width else self.graph.node("view", (v,), width)

    def _check_once(self, name: str, value: Symbol) -> None:
        known = self._maps.setdefault(name, value)
        if known is not value:
            raise CellError(
                f"linear map {name!r} of {self.title} is named twice with different operands or options. Each "
                f"affine map has its own name: call the second one {name + '2'!r}, or use the first one's value."
            )

    def vector(self, name: str, initial: float, width: str) -> Symbol:
        """A per-unit parameter, taken down."""
        self._check_name("vector", name)
        self._check_width(f"vector {name!r}", width)
        if RESERVED.match(name):
            raise CellError(
                f"vector {name!r} of {self.title} is named as the parameters of linear maps are. Rename it."
            )
        try:
            first = float(initial)
        except (TypeError, ValueError, OverflowError):
            first = math.nan
        if not math.isfinite(first):
            raise CellError(
                f"vector {name!r} of {self.title} starts at {CellError.shown(initial)}, which is no finite float. "
                "Give one, such as 0.0."
            )
        if self.parameters.get(name, (width,)) != (width,) or self.initial.get(name, first) != first:
            raise CellError(f"vector {name!r} of {self.title} is declared twice in different ways. Rename one.")
        self.initial[name] = first
        self.parameters[name] = (width,)
        return self.graph.node("vector", width=width, detail=name)

    def name(self, name: str, value: Symbol) -> Symbol:
        """`value`, its name taken down."""
        self._check_name("value", name)
        if not isinstance(value, Symbol):
            raise CellError(
                f"{name!r} of {self.title} names {CellError.shown(value)}. Name a value computed from x and the states."
            )
        if self.names.setdefault(name, value) is not value:
            raise CellError(f"two values of {self.title} are named {name!r}. Give each its own name.")
        return value

    def _operand(self, name: str, operand: object) -> Symbol:
        if not isinstance(operand, Symbol) or operand.width is None or operand.operation in CONDITIONS:
            raise CellError(
                f"linear map {name!r} of {self.title} has the operand {CellError.shown(operand)}. "
                "Operands are x, a state or a value computed from them."
            )
        return symbol(self.graph, operand)

    def _check_name(self, what: str, name: object) -> None:
        if not isinstance(name, str) or not NAME.fullmatch(name):
            raise CellError(f"{what} of {self.title} is named {name!r}. Use letters, digits and underscores.")

    def _check_width(self, what: str, width: str) -> None:
        known = ("hidden", "input", *self.cell.sizes)
        parts = factors(width) if isinstance(width, str) else (width,)
        if len(parts) > MOST_FACTORS or not all(part in known for part in parts):
            raise CellError(
                f"{what} of {self.title} has the width {width!r}, which is none of {', '.join(known)}. Declare it "
                "in the cell's `sizes`."
            )

    def _results(self, returned: Any, widths: dict[str, str]) -> tuple[Symbol, ...]:
        values = returned if isinstance(returned, tuple) else (returned,)
        if len(values) != len(widths):
            raise CellError(
                f"`step` of {self.title} returned {len(values)} state(s) and takes {len(widths)} "
                f"({', '.join(widths)}). Return the new {', '.join(widths)}, in this order."
            )
        pairs = zip(widths.items(), values, strict=True)
        return tuple(self._result(state, width, value) for (state, width), value in pairs)

    def _result(self, state: str, width: str, value: Any) -> Symbol:
        """What `step` returned as the new value of a state."""
        if not isinstance(value, Symbol) or value.width is None or value.operation in CONDITIONS:
            raise CellError(
                f"`step` of {self.title} returned {CellError.shown(value)} as state {state!r}. Return its new value."
            )
        if value.width != width:
            raise CellError(
                f"`step` of {self.title} returned state {state!r} with width {value.width!r} where it takes "
                f"{width!r}. Bring it back by self.linear(name, value, width={width!r})."
            )
        return symbol(self.graph, value)

    def _names_of_values(
        self, widths: dict[str, str], results: tuple[Symbol, ...], local: dict[str, Symbol]
    ) -> dict[Symbol, str]:
        """What each computed value is called: by its state, by `name`, or by a local variable."""
        names: dict[Symbol, str] = {}
        for state, value in zip(widths, results, strict=True):
            if value.operation not in GIVEN:
                names.setdefault(value, state)
        for name, value in {**self.names, **local}.items():
            computed = value.operation not in LEAVES
            if value.graph is self.graph and computed and name not in widths:
                names.setdefault(value, name)
        return names

    def _equations(self, widths: dict[str, str], results: tuple[Symbol, ...], local: dict[str, Symbol]) -> Equations:
        names = self._names_of_values(widths, results, local)
        # x, the states and the further inputs, even those that a cell ignores
        leaves = self.graph.nodes[: 1 + len(widths) + len(self.cell.inputs)]
        needed = _ancestors((*leaves, *results, *names))
        nodes = tuple(node for node in self.graph.nodes if node in needed)
        named = {names[node]: node for node in nodes if node in names and node.operation not in CONDITIONS}
        named |= {state: value for state, value in zip(widths, results, strict=True) if state not in named}
        return Equations(
            title=self.title,
            sizes=dict(self.cell.sizes),
            states=widths,
            parameters=self.parameters,
            initial=self.initial,
            nodes=nodes,
            named=named,
            results=results,
            inputs=dict(self.cell.inputs),
        )


def _name_matrices(name: str, is_x: list[bool]) -> Iterator[str]:
    """W for x; U for the other operand, or U1, U2, … for several."""
    several = is_x.count(False) > 1
    number = 0
    for x in is_x:
        number += not x
        yield f"W_{name}" if x else f"U{number if several else ''}_{name}"


def _ancestors(values: tuple[Symbol, ...]) -> set[Symbol]:
    seen: set[Symbol] = set()
    pending = list(values)
    while pending:
        value = pending.pop()
        if value not in seen:
            seen.add(value)
            pending.extend(value.inputs)
    return seen


def _call_and_see_names(reader: Readable, *values: Symbol, **extras: Symbol) -> tuple[Any, dict[str, Symbol]]:
    """Call `step` and also return the symbols that its local variables, and its helper methods', named at their end."""
    names: dict[str, Symbol] = {}

    def see(frame: FrameType, event: str, _argument: object) -> None:
        own = frame.f_globals.get("__name__") in ("unspool.cells.cell", __name__)
        method = frame.f_code.co_varnames[:1]
        if event == "return" and not own and method and frame.f_locals.get(method[0]) is reader:
            for name, value in frame.f_locals.items():
                if isinstance(value, Symbol):
                    names.setdefault(name, value)

    outer = sys.getprofile()
    sys.setprofile(see)
    try:
        returned = reader.step(*values, **extras)
    finally:
        _resume_profile(outer)
    return returned, names


def _resume_profile(outer: Any) -> None:
    """Let a profiler go on. cProfile's, which is written in C, cannot be set as a function can; it enables itself."""
    if outer is None or callable(outer):
        sys.setprofile(outer)
    else:
        sys.setprofile(None)
        outer.enable()
