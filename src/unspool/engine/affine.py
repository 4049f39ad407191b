"""Affine: a linear map in the form of a cell."""

from __future__ import annotations

from unspool.cells.cell import Cell
from unspool.cells.symbols import Symbol


class Affine(Cell):
    """y = W x + b: a cell without memory, so that linear maps have the products of cells."""

    def step(self, x: Symbol, y: Symbol) -> Symbol:  # noqa: ARG002 - every cell has a state
        return self.linear("y", x)
