"""Liquid networks: differential equations whose time constants depend on the input and the state."""

from __future__ import annotations

from collections.abc import Mapping

from unspool.cells.cell import Cell, FirstValues, Shapes, Uniform, check_number, check_size
from unspool.cells.functions import exp, sigmoid, tanh
from unspool.cells.symbols import Symbol


class LTC(Cell):
    """Liquid time-constant network (Hasani et al., 2021): dh/dt = −(1/τ + f) h + f A, by `unfold` fused steps.

    f = σ(W x + U h + b) is computed anew in each of them. The time constants are τ = e^(−g), A starts in ±1.
    """

    def __init__(self, dt: float = 1.0, unfold: int = 6) -> None:
        self.dt = check_number("dt", dt, "Give the time between steps, such as dt=1", positive=True)
        self.unfold = check_size("unfold", unfold)

    def first_values(self, shapes: Shapes, uniform: Uniform) -> FirstValues:
        return {"A": [uniform(-1, 1) for _ in range(*shapes["A"])]}

    def step(self, x: Symbol, h: Symbol) -> Symbol:
        leak = exp(self.vector("g"))
        for part in range(1, self.unfold + 1):
            f = self.name(f"f{part}", sigmoid(self.linear("f", x, h, tied=True)))
            h = self.name(
                f"h{part}", (self.unfold * h + self.dt * f * self.vector("A")) / (self.unfold + self.dt * (leak + f))
            )
        return h


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
