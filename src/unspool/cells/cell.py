"""Cell: the contract. A cell is its equations, written once as `step`; everything else is derived from them."""

from __future__ import annotations

import copy
import inspect
import operator
from collections.abc import Mapping
from typing import Any

from unspool.cells.equations import Equations
from unspool.cells.latex import latex
from unspool.cells.reading import Reading
from unspool.cells.symbols import Symbol
from unspool.errors import ArgumentError, ArgumentTypeError, CellError


class Cell:
    """One step of a recurrent network.

    Write `step(self, x, h, …)`: it takes the input and the states by the names they have in the equations, and
    returns the new states in the same order (a single state needs no tuple). The first state is the output.

        class Minimal(Cell):
            def step(self, x, h):
                z = sigmoid(self.linear("z", x))
                n = tanh(self.linear("n", x))
                return (1 - z) * h + z * n

    Inside `step`, values are combined with Python's arithmetic and the functions of `unspool.cells`; local variables
    give the values their names. `step` is read once, on symbols: it must not branch on values.
    """

    #: Gates that keep the old state as they open (+1) or as they close (−1). Initialisation and X-ray read this.
    keeps: Mapping[str, int] = {}
    #: Gates that let new values in as they open (+1).
    writes: Mapping[str, int] = {}
    #: "hidden" for a cell that reads x unit by unit and so needs input_size == hidden_size.
    input_width: str = "input"
    _reading: Reading | None = None

    def step(self, *args: Any, **kwargs: Any) -> Any:  # noqa: ARG002
        """The equations: (x_t, states at t−1) → states at t."""
        raise CellError(f"{type(self).__name__} has no `step`. Define step(self, x, h) and return the new h.")

    @property
    def sizes(self) -> Mapping[str, int]:
        """Sizes that the cell adds to "input" and "hidden", by name. Override to have some."""
        return {}

    @property
    def state_widths(self) -> Mapping[str, str]:
        """Widths of the states that are not "hidden" wide, by state. Override to have some."""
        return {}

    @property
    def states(self) -> tuple[str, ...]:
        """The names of the states: those of `step`'s arguments after x. Override where their number varies."""
        if type(self).step is Cell.step:
            self.step()
        arguments = list(inspect.signature(self.step).parameters.values())
        names = tuple(argument.name for argument in arguments[1:])
        plain = all(argument.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD for argument in arguments)
        if not names or not plain:
            raise CellError(
                f"`step` of {type(self).__name__} must take x and at least one state by name, such as "
                f"step(self, x, h), got step{inspect.signature(self.step)}. A cell with a varying number of states "
                "overrides `states`."
            )
        return names

    def linear(self, name: str, *operands: Symbol, bias: bool = True, width: str = "hidden") -> Symbol:
        """W x + U v + b: an affine map with parameters of its own, named by `name`.

        The matrix of x is W_name, the one of any other operand U_name (U1_name, U2_name… if there are several), and
        the bias b_name. Naming a map again with the same operands is the same value.
        """
        return self._now("linear").linear(name, operands, bias=bias, width=width)

    def vector(self, name: str, initial: float = 0.0, width: str = "hidden") -> Symbol:
        """A learned number per unit, such as a peephole or a scale; it starts at `initial`."""
        return self._now("vector").vector(name, initial, width)

    def name(self, name: str, value: Symbol) -> Symbol:
        """`value`, with a name that a local variable cannot give, as in a loop."""
        return self._now("name").name(name, value)

    def equations(self, bias: bool = True) -> Equations:
        """`step` as a graph of symbols; without biases if `bias` is False."""
        reading = Reading(self, bias)
        reader = copy.copy(self)
        reader._reading = reading
        return reading.read(reader)

    def count_parameters(self, input_size: int, hidden_size: int, bias: bool = True) -> int:
        """How many numbers a layer of these sizes learns."""
        for name, size in (("input_size", input_size), ("hidden_size", hidden_size)):
            check_size(name, size)
        return self.equations(bias).count_parameters(input_size, hidden_size)

    def latex(self, bias: bool = True) -> str:
        """The equations as LaTeX, one named value a line."""
        return latex(self.equations(bias))

    def _repr_latex_(self) -> str:
        return f"$${self.latex()}$$"

    def __repr__(self) -> str:
        options = ", ".join(f"{key}={value!r}" for key, value in vars(self).items() if not key.startswith("_"))
        return f"{type(self).__name__}({options})"

    def _now(self, method: str) -> Reading:
        if self._reading is None:
            raise CellError(
                f"self.{method} has a meaning only while `step` is read. To run {type(self).__name__}, give it to "
                "unspool.nn.Recurrent; to see its equations, print cell.latex()."
            )
        return self._reading


def check_size(name: str, value: Any, least: int = 1) -> int:
    """`value` as a size: a whole number from `least` on."""
    example = "" if "[" in name else f", such as {name}=128"  # one item of a list is not given by its place
    remedy = f"Give a whole number from {least} on{example}"
    try:
        size = None if isinstance(value, bool) else operator.index(value)
    except TypeError:  # arrays and tensors have __index__ and refuse only when asked
        size = None
    if size is None:
        raise ArgumentTypeError.of(name, value, f"is of type {type(value).__name__}, not a whole number", remedy)
    if size < least:
        raise ArgumentError.of(name, value, "is not positive" if least else "is negative", remedy)
    return size
