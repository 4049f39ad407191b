"""Symbols: what a cell's `step` computes with while it is read as equations.

A symbol is one node of a graph over a small closed set of operations. Every symbol has a width, the *name* of a
size ("input", "hidden", or one that the cell declares), so one reading serves all sizes.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NoReturn

from unspool.cells.widths import ONE, factors, is_prefix
from unspool.errors import CellError

#: What a step is called with.
GIVEN = ("input", "extra", "state")
LEAVES = ("input", "extra", "state", "vector", "constant")
FUNCTIONS = ("sigmoid", "tanh", "relu", "exp", "log", "log1p", "sqrt", "sin", "cos", "erf", "softplus")
#: Of the units of a row together.
OVER_UNITS = ("normalise", "softmax", "cumsum")
UNARY = ("negative", *FUNCTIONS, "absolute", *OVER_UNITS)
BINARY = ("add", "subtract", "multiply", "divide", "minimum", "maximum")
CONDITIONS = ("less", "less_equal")
#: From units to fewer numbers, and back.
REDUCTIONS = ("sum", "mean", "max")
MATRICES = ("outer", "matvec", "vecmat", "columns", "expand", "view")
OPERATIONS = frozenset((*LEAVES, *UNARY, *BINARY, *CONDITIONS, *REDUCTIONS, *MATRICES, "linear", "where"))

Number = int | float
LARGEST_POWER = 2**30


@dataclass(frozen=True)
class LinearMap:
    """The parameters of one affine map, sum of matrix·operand (+ bias), by name."""

    name: str
    matrices: tuple[str, ...]
    bias: str | None


class Graph:
    """The symbols of one reading of one `step`. Equal expressions are one symbol."""

    def __init__(self) -> None:
        self.nodes: list[Symbol] = []
        self._interned: dict[tuple[object, ...], Symbol] = {}

    def node(
        self, operation: str, inputs: tuple[Symbol, ...] = (), width: str | None = None, detail: Any = None
    ) -> Symbol:
        """The symbol for this operation; made at its first use. A width of None is a number: it fits any width."""
        assert operation in OPERATIONS
        key = (operation, *map(id, inputs), width, detail)
        if key not in self._interned:
            self._interned[key] = Symbol(self, operation, inputs, width, detail)
            self.nodes.append(self._interned[key])
        return self._interned[key]


class Symbol:
    """A value of the equations, known by how it is computed and how wide it is, not by its numbers."""

    __slots__ = ("detail", "graph", "inputs", "operation", "width")
    __array_ufunc__ = None  # numpy's scalars leave the arithmetic to us

    def __init__(
        self, graph: Graph, operation: str, inputs: tuple[Symbol, ...], width: str | None, detail: Any
    ) -> None:
        self.graph, self.operation, self.inputs, self.width, self.detail = graph, operation, inputs, width, detail

    def __repr__(self) -> str:
        return f"<{self.operation} of width {self.width}>"

    def __add__(self, other: Symbol | Number) -> Symbol:
        return elementwise("add", self, other)

    def __radd__(self, other: Number) -> Symbol:
        return elementwise("add", other, self)

    def __sub__(self, other: Symbol | Number) -> Symbol:
        return elementwise("subtract", self, other)

    def __rsub__(self, other: Number) -> Symbol:
        return elementwise("subtract", other, self)

    def __mul__(self, other: Symbol | Number) -> Symbol:
        return elementwise("multiply", self, other)

    def __rmul__(self, other: Number) -> Symbol:
        return elementwise("multiply", other, self)

    def __truediv__(self, other: Symbol | Number) -> Symbol:
        return elementwise("divide", self, other)

    def __rtruediv__(self, other: Number) -> Symbol:
        return elementwise("divide", other, self)

    def __pow__(self, exponent: int) -> Symbol:
        if not isinstance(exponent, int) or not 1 <= exponent <= LARGEST_POWER:
            raise CellError(
                f"a power must be a whole number from 1 to {LARGEST_POWER}, got {CellError.shown(exponent)} "
                f"({users_line()}). Write it with exp and log."
            )
        if exponent == 1:
            return self
        # Squaring takes as many products as the exponent has binary digits, or up to twice as many.
        half = self ** (exponent // 2)
        return half * half * self if exponent % 2 else half * half

    def __neg__(self) -> Symbol:
        return elementwise("negative", self)

    def __abs__(self) -> Symbol:
        return elementwise("absolute", self)

    def __lt__(self, other: Symbol | Number) -> Symbol:
        return elementwise("less", self, other)

    def __le__(self, other: Symbol | Number) -> Symbol:
        return elementwise("less_equal", self, other)

    def __gt__(self, other: Symbol | Number) -> Symbol:
        return elementwise("less", other, self)

    def __ge__(self, other: Symbol | Number) -> Symbol:
        return elementwise("less_equal", other, self)

    def __eq__(self, other: object) -> NoReturn:
        self._refuse("== and !=", "Numbers are seldom equal to the last digit; write where(a < b, …)")

    __hash__ = object.__hash__

    def __bool__(self) -> NoReturn:
        self._refuse("Python's `if`, `while`, `and`, `or` and `not`", "Write where(condition, a, b)")

    def __float__(self) -> NoReturn:
        self._refuse("float() and the functions of `math`", "Use unspool's sigmoid, tanh, exp, …")

    def __iter__(self) -> Iterator[Symbol]:
        self._refuse("Iterating and unpacking", "A symbol is one vector; name each state in step's arguments")

    def __getitem__(self, index: object) -> NoReturn:
        self._refuse("Indexing", "A symbol is one whole vector; use a linear map to select from it")

    def __len__(self) -> NoReturn:
        self._refuse("len()", "Sizes are not known to the equations")

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):
            raise AttributeError(name)
        self._refuse(f"`.{name}`", "Use unspool's functions: sigmoid(v), not v.sigmoid()")

    def _refuse(self, what: str, remedy: str) -> NoReturn:
        raise CellError(f"{what} cannot act on a symbol ({users_line()}). {remedy}.")


def elementwise(operation: str, *operands: Symbol | Number, detail: Any = None) -> Symbol:
    """The symbol of an operation that acts unit by unit on operands of one width.

    Numbers fit any width, and so do values of width "one". A value per row of a matrix fits the matrix.
    """
    graph = next(operand.graph for operand in operands if isinstance(operand, Symbol))
    inputs = tuple(symbol(graph, operand) for operand in operands)
    _check_kinds(operation, inputs)
    width = _joint_width(operation, inputs)
    if operation in OVER_UNITS and width == ONE:
        raise CellError(f"{operation} of {inputs[0]!r} ({users_line()}): one number has no units. Leave it out.")
    return graph.node(operation, tuple(_widened(value, width) for value in inputs), width, detail)


def _joint_width(operation: str, inputs: tuple[Symbol, ...]) -> str | None:
    """The width that all inputs have or can be brought to; None if all are numbers."""
    widths = [value.width for value in inputs if value.width is not None]
    widest = max(widths, key=lambda width: len(factors(width)), default=None)
    if widest is not None and not all(is_prefix(width, widest) for width in widths):
        raise CellError(
            f"{operation} of {' and '.join(map(repr, inputs))} ({users_line()}): the widths differ. Bring one to "
            "the other's width by self.linear(name, value, width=…), or, for a cell that reads x unit by unit, set "
            "its class attribute input_width = 'hidden'."
        )
    return widest


def _widened(value: Symbol, width: str | None) -> Symbol:
    """A value per row as a matrix with equal columns; what is one number fits as it is."""
    if value.width in (None, ONE, width):
        return value
    if value.operation in CONDITIONS:  # it is no number, so what it compares is widened
        return value.graph.node(value.operation, tuple(_widened(part, width) for part in value.inputs), width)
    return value.graph.node("expand", (value,), width)


def _check_kinds(operation: str, inputs: tuple[Symbol, ...]) -> None:
    """Only `where` takes a comparison, as its first operand."""
    for position, value in enumerate(inputs):
        wanted = operation == "where" and position == 0
        if (value.operation in CONDITIONS) != wanted:
            raise CellError(
                f"{operation} takes {'a comparison' if wanted else 'a value'} as operand {position + 1} and got "
                f"{value!r} ({users_line()}). Comparisons are for where(condition, a, b)."
            )


def symbol(graph: Graph, value: Symbol | Number) -> Symbol:
    """`value` as a symbol of this graph; numbers become constants."""
    if isinstance(value, Symbol):
        if value.graph is not graph:
            raise CellError("a symbol was kept from another reading of `step`. Keep no values on `self`.")
        return value
    return graph.node("constant", detail=as_number(value))


def as_number(value: Number) -> float:
    """`value` as a finite float, for the equations."""
    try:
        number = value.__float__()  # not float(value), which would read text
    except OverflowError:
        raise CellError(
            f"{CellError.shown(value)} is too large for a float ({users_line()}). Use smaller numbers."
        ) from None
    except (AttributeError, TypeError, ValueError, RuntimeError):
        raise CellError(
            f"{CellError.shown(value)} of type {type(value).__name__} stands in the equations ({users_line()}). "
            "Use numbers, self.linear for matrices and self.vector for a parameter per unit."
        ) from None
    if not math.isfinite(number):
        raise CellError(f"the number {number} stands in the equations ({users_line()}). Use finite numbers.")
    return number


def users_line() -> str:
    """Where in the user's code the present operation stands."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("unspool.cells."):
        if frame.f_code.co_name == "step":
            break
        frame = frame.f_back
    return f"{frame.f_code.co_filename}, line {frame.f_lineno}"
