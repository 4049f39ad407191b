"""What cannot be read as equations is refused, with the place and the remedy."""

from __future__ import annotations

import inspect
import math
import re
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from tests.variants import cell_of

from unspool.cells import Cell, Symbol, maximum, minimum, normalise, sigmoid, tanh, where
from unspool.errors import CellError


def read(step: Callable[..., Any], **attributes: Any) -> None:
    cell_of(step, **attributes).equations()


def test_an_if_is_refused_with_its_file_and_line() -> None:
    def step(self: Cell, x: Symbol, h: Symbol) -> Symbol:
        if h > 0:
            return h
        return self.linear("a", x)

    line = inspect.getsourcelines(step)[1] + 1
    place = re.escape(f"{__file__}, line {line}")
    with pytest.raises(CellError, match=rf"`if`.*{place}.*where\(condition, a, b\)"):
        read(step)


def test_the_place_is_the_line_that_called_for_it_also_in_a_helper() -> None:
    def helper(v: Symbol) -> float:
        return float(v)

    place = re.escape(f"{__file__}, line {inspect.getsourcelines(helper)[1] + 1}")
    with pytest.raises(CellError, match=place):
        read(lambda self, x, h: helper(h) * h)


STEPS: dict[str, tuple[Callable[..., Any], str]] = {
    "while": (lambda self, x, h: h if h else x, "`if`"),
    "and": (lambda self, x, h: h > 0 and h, "`and`"),
    "not": (lambda self, x, h: not h, "`not`"),
    "equality": (lambda self, x, h: h if h == 0 else h + 1, "=="),
    "inequality": (lambda self, x, h: h if h != 0 else h + 1, "!="),
    "chained comparison": (lambda self, x, h: where(0 < h < 1, h, 0.0), "`and`"),
    "float": (lambda self, x, h: float(h) * h, r"float\(\).*sigmoid, tanh"),
    "int": (lambda self, x, h: int(h) * h, "cannot be read"),
    "math": (lambda self, x, h: math.tanh(h), "functions of `math`"),
    "method": (lambda self, x, h: h.sigmoid(), r"`\.sigmoid` .*sigmoid\(v\), not v\.sigmoid\(\)"),
    "shape": (lambda self, x, h: h.shape[0] * h, r"`\.shape`"),
    "numpy": (lambda self, x, h: np.tanh(h), "cannot be read as equations.*sigmoid, tanh"),
    "torch": (lambda self, x, h: torch.tanh(h), "cannot be read as equations.*sigmoid, tanh"),
    "index": (lambda self, x, h: h[0], "Indexing"),
    "slice": (lambda self, x, h: h[:, :2], "Indexing"),
    "unpacking": (lambda self, x, h: sum(h), "Iterating and unpacking"),
    "len": (lambda self, x, h: len(h) * h, r"len\(\)"),
    "matrix product": (lambda self, x, h: h @ h, "cannot be read"),
    "modulo": (lambda self, x, h: h % 2, "cannot be read"),
    "power 0": (lambda self, x, h: h**0, "whole number from 1 to 1073741824, got 0"),
    "power too large": (lambda self, x, h: h ** (2**30 + 1), "from 1 to 1073741824, got 1073741825"),
    "power far too large": (lambda self, x, h: h**10**5000, "got <int>"),
    "number too large": (lambda self, x, h: h + 10**400, "1000.* is too large for a float"),
    "number far too large": (lambda self, x, h: h + 10**5000, "<int> is too large for a float"),
    "NaN": (lambda self, x, h: h * math.nan, "the number nan stands in the equations.*finite"),
    "infinity": (lambda self, x, h: h - math.inf, "the number inf stands in the equations.*finite"),
    "numpy's NaN": (lambda self, x, h: np.float32("nan") * h, "the number nan stands"),
    "epsilon of NaN": (lambda self, x, h: normalise(h, math.nan), "the number nan stands"),
    "vector that starts at NaN": (
        lambda self, x, h: h * self.vector("v", math.nan),
        "vector 'v' of Mine starts at nan",
    ),
    "an error of its own": (lambda self, x, h: 1 / 0, "`step` of Mine cannot be read.*ZeroDivisionError: division"),
    "endless recursion": (lambda self, x, h: self.step(x, h), "`step` of Mine cannot be read.*RecursionError: maximum"),
    "vector that starts too high": (lambda self, x, h: h * self.vector("v", 10**400), "vector 'v'"),
    "power 0.5": (lambda self, x, h: h**0.5, r"got 0\.5.*exp and log"),
    "widths": (lambda self, x, h: x + h, "width input.*width hidden.*self.linear.*input_width = 'hidden'"),
    "comparison of widths": (lambda self, x, h: where(x < h, h, 0), "widths differ"),
    "comparison as value": (lambda self, x, h: h * (h > 0), r"multiply takes a value as operand 2.*where\(condition"),
    "comparison in a function": (lambda self, x, h: tanh(h > 0), "takes a value as operand 1"),
    "comparison as operand": (lambda self, x, h: self.linear("a", h > 0), "'a' of Mine has the operand"),
    "comparison as branch": (lambda self, x, h: where(h > 0, h > 1, h), "takes a value as operand 2"),
    "comparison as state": (lambda self, x, h: h > 0, "as state 'h'. Return its new value"),
    "comparison with a name": (lambda self, x, h: where(h > 0, self.name("n", h > 0), h), "takes a value"),
    "value as condition": (lambda self, x, h: where(h, h, 0), "takes a comparison as operand 1"),
    "bool as condition": (lambda self, x, h: where(h is h, h, 0), "where needs a value of the equations"),  # type: ignore[arg-type]
    "text": (lambda self, x, h: h * "two", "'two' of type str stands in the equations"),
    "number as text": (lambda self, x, h: h * "3", "'3' of type str stands in the equations"),
    "none": (lambda self, x, h: h + None, "None of type NoneType"),
    "complex": (lambda self, x, h: h + 1j, "1j of type complex"),
    "list": (lambda self, x, h: h - [1.0, 2.0], r"\[1.0, 2.0\] of type list"),
    "array": (lambda self, x, h: h * np.ones(4), "of type ndarray.*self.vector"),
    "array first": (lambda self, x, h: np.ones(4) * h, "of type ndarray.*self.vector"),
    "tensor": (lambda self, x, h: h * torch.ones(4), "of type Tensor.*self.vector"),
    "numbers only": (lambda self, x, h: minimum(1, 2) * h, "minimum needs a value"),
    "numbers only, maximum": (lambda self, x, h: maximum(1, 2) * h, "maximum needs a value"),
    "numbers only, normalise": (lambda self, x, h: normalise(1.0) * h, "normalise needs a value"),  # type: ignore[arg-type]
    "too few states": (lambda self, x, h, c: h, r"returned 1 state\(s\) and takes 2 \(h, c\). Return the new h, c"),
    "too many states": (lambda self, x, h: (h, h), r"returned 2 state\(s\) and takes 1 \(h\)"),
    "no states returned": (lambda self, x, h: None, "returned None as state 'h'"),
    "a number as state": (lambda self, x, h: 0.0, "returned 0.0 as state 'h'"),
    "a list as state": (lambda self, x, h: [h], r"returned \[<state of width hidden>\] as state 'h'"),
    "x as state": (lambda self, x, h: x, r"with width 'input' where it takes 'hidden'.*width='hidden'\)"),
    "different operands": (
        lambda self, x, h: self.linear("a", x, h) + self.linear("a", x, tanh(h)),
        "'a' of Mine is named twice with different operands.*'a2'",
    ),
    "different order": (lambda self, x, h: self.linear("a", x, h) + self.linear("a", h, x), "named twice"),
    "different bias": (lambda self, x, h: self.linear("a", x) + self.linear("a", x, bias=False), "named twice"),
    "x twice": (lambda self, x, h: self.linear("a", x, x), "reads a value twice"),
    "h twice": (lambda self, x, h: self.linear("a", h, x, h), "'a' of Mine reads a value twice"),
    "no operand": (lambda self, x, h: self.linear("a"), r"no operand. Write self.linear\('a', x, h\)"),
    "number as operand": (lambda self, x, h: self.linear("a", 3), "has the operand 3"),
    "unknown width": (lambda self, x, h: self.linear("a", x, width="big"), "'big', which is none of hidden, input"),
    "number as width": (lambda self, x, h: self.linear("a", x, width=8), "width 8.*`sizes`"),
    "unknown width of a vector": (lambda self, x, h: h * self.vector("v", width="big"), "vector 'v'.*'big'"),
    "vector twice": (lambda self, x, h: self.vector("v") * h + self.vector("v", 1.0), "'v' of Mine is declared twice"),
    "vector named as a bias": (lambda self, x, h: self.vector("b_a") * h + self.linear("a", x), "vector 'b_a'"),
    "vector named as a matrix": (lambda self, x, h: self.linear("a", x) + self.vector("W_a") * h, "vector 'W_a'"),
    "vector that starts at text": (lambda self, x, h: self.vector("v", "one") * h, "vector 'v'.*'one'"),
    "name with a dot": (lambda self, x, h: self.linear("a.b", x), r"'a\.b'. Use letters"),
    "empty name": (lambda self, x, h: self.linear("", x), "named ''"),
    "number as name": (lambda self, x, h: self.linear(3, x), "named 3"),
    "vector's bad name": (lambda self, x, h: h * self.vector("a b"), "vector of Mine is named 'a b'"),
    "value's bad name": (lambda self, x, h: self.name("a-b", h + 1), "value of Mine is named 'a-b'"),
    "two values of one name": (lambda self, x, h: self.name("a", h + 1) + self.name("a", h + 2), "are named 'a'"),
    "name of a number": (lambda self, x, h: self.name("a", 3) * h, "'a'"),
    "users' own mistake": (lambda self, x, h: self.missing + h, "'missing'"),
}


@pytest.mark.parametrize(("step", "message"), STEPS.values(), ids=STEPS)
def test_refused(step: Callable[..., Any], message: str) -> None:
    with pytest.raises(CellError, match=f"(?s){message}"):
        read(step)


def test_a_state_of_unknown_width() -> None:
    with pytest.raises(CellError, match="state 'h' of Mine has the width 'wide'.*`sizes`"):
        read(lambda self, x, h: h, state_widths={"h": "wide"})


def test_an_input_of_unknown_width() -> None:
    with pytest.raises(CellError, match="'wide'"):
        read(lambda self, x, h: self.linear("a", x, h), input_width="wide")


def test_widths_for_a_state_that_does_not_exist() -> None:
    with pytest.raises(CellError, match="'m'"):
        read(lambda self, x, h: h, state_widths={"m": "hidden"})


def test_no_step() -> None:
    class Empty(Cell):
        pass

    with pytest.raises(CellError, match=r"Empty.*step\(self, x, h\)"):
        Empty().equations()


@pytest.mark.parametrize(
    "step",
    [
        lambda self: None,
        lambda self, x: x,
        lambda self, x, *h: h,
        lambda self, x, *, h: h,
        lambda self, x, **h: h,
    ],
    ids=["nothing", "no state", "any states", "by keyword", "by any keyword"],
)
def test_a_step_without_named_states(step: Callable[..., Any]) -> None:
    with pytest.raises(CellError, match=r"must take x and at least one state by name.*step\(self, x, h\).*`states`"):
        read(step)


def test_a_symbol_kept_from_another_reading() -> None:
    kept: list[Symbol] = []

    def step(self: Cell, x: Symbol, h: Symbol) -> Symbol:
        kept.append(h)
        return tanh(self.linear("a", x, h)) + kept[0]

    def returns(self: Cell, x: Symbol, h: Symbol) -> Symbol:
        return tanh(kept[0])

    def reads(self: Cell, x: Symbol, h: Symbol) -> Symbol:
        return self.linear("a", kept[0])

    cell = cell_of(step)
    cell.equations()
    for other in (cell, cell_of(returns), cell_of(reads)):
        with pytest.raises(CellError, match="kept from another reading"):
            other.equations()


@pytest.mark.parametrize("method", ["linear", "vector", "name"])
def test_equations_are_written_only_while_step_is_read(method: str) -> None:
    with pytest.raises(CellError, match=rf"self\.{method} has a meaning only while.*unspool\.nn\.Recurrent"):
        getattr(cell_of(lambda self, x, h: h), method)("a", 1)


def test_other_exceptions_of_the_users_code_are_the_cause() -> None:
    def step(self: Cell, x: Symbol, h: Symbol) -> Symbol:
        raise ZeroDivisionError("mine")

    with pytest.raises(CellError, match="`step` of Mine cannot be read as equations: ZeroDivisionError: mine") as error:
        read(step)
    assert isinstance(error.value.__cause__, ZeroDivisionError)


def test_a_failed_reading_leaves_no_profiler_behind() -> None:
    before = sys.getprofile()
    with pytest.raises(CellError):
        read(lambda self, x, h: sigmoid(h).nothing)
    assert sys.getprofile() is before


@pytest.mark.parametrize("error", [SystemExit, KeyboardInterrupt])
def test_what_ends_the_program_passes(error: type[BaseException]) -> None:
    def stop(self: Any, x: Any, h: Any) -> Any:
        raise error

    with pytest.raises(error):
        read(stop)
