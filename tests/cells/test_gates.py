"""Gates, as the equations show them."""

from __future__ import annotations

import pytest

from unspool import Cell, sigmoid
from unspool.cells.catalogue import find_cell
from unspool.cells.gates import find_gates
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
