"""Gates, as the equations show them."""

from __future__ import annotations

import pytest

from unspool import Cell, sigmoid
from unspool.cells.catalogue import CATALOGUE, find_cell
from unspool.cells.gates import find_gates, find_series
from unspool.cells.symbols import Symbol


@pytest.mark.parametrize(
    ("cell", "gates"), [("lstm", ("i", "f", "o")), ("gru", ("r", "z")), ("elman", ()), ("gru-reset-after", ("r", "z"))]
)
def test_gates_of_cells(cell: str, gates: tuple[str, ...]) -> None:
    assert find_gates(find_cell(cell).equations()) == gates


def test_a_sigmoid_that_multiplies_nothing_is_no_gate() -> None:
    class Sigmoid(Cell):
        def step(self, x: Symbol, h: Symbol) -> Symbol:
            s = sigmoid(self.linear("s", x, h))
            return s + h

    assert find_gates(Sigmoid().equations()) == ()


@pytest.mark.parametrize("name", list(CATALOGUE))
def test_gates_that_keep_are_together_where_they_follow_each_other(name: str) -> None:
    cell = CATALOGUE[name]()
    apart = tuple((gate,) for gate in cell.keeps)
    assert find_series(cell.equations(), cell.keeps) == ((tuple(cell.keeps),) if name == "rhn" else apart)


def test_series_of_a_cell_with_two_memories() -> None:
    """p then q keep what is in c, with a value in between; r keeps h, by opening; u reads what p has kept."""

    class Two(Cell):
        def step(self, x: Symbol, h: Symbol, c: Symbol) -> tuple[Symbol, Symbol]:
            p = sigmoid(self.linear("p", x))
            q = sigmoid(self.linear("q", x))
            r = sigmoid(self.linear("r", x, h))
            c = (1 - p) * c + p * self.linear("n", x)
            u = sigmoid(self.linear("u", c))
            c = q * c + (1 - q) * self.linear("m", x)
            return r * h + u * c, c

    cell = Two()
    assert find_series(cell.equations(), {"p": -1, "q": +1, "r": +1}) == (("p", "q"), ("r",))
