"""Liquid networks: differential equations whose time constants depend on the input and the state."""

from __future__ import annotations

from collections.abc import Mapping

from unspool.cells.cell import Cell, check_number, check_size
from unspool.cells.functions import sigmoid, tanh
from unspool.cells.symbols import Symbol


class CfC(Cell):
    """Closed-form continuous-time network (Hasani et al., 2022): the solution between two points g and n.

    `dt` is the time between steps, and `backbone` the width of the layer that f, g and n read.
    """

    def __init__(self, dt: float = 1.0, backbone: int = 128) -> None:
        self.dt = check_number("dt", dt, "Give the time between steps, such as dt=1", positive=True)
        self.backbone = check_size("backbone", backbone)

    @property
    def sizes(self) -> Mapping[str, int]:
        return {"backbone": self.backbone}

    def step(self, x: Symbol, h: Symbol) -> Symbol:
        v = 1.7159 * tanh(0.666 * self.linear("v", x, h, width="backbone"))
        f = sigmoid(-self.dt * self.linear("f", v))
        g = tanh(self.linear("g", v))
        n = tanh(self.linear("n", v))
        return f * g + (1 - f) * n
