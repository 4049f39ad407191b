"""Recurrences of each unit with itself: IndRNN, SRU and QRNN. All their matrices read the input."""

from __future__ import annotations

from collections.abc import Mapping

from unspool.cells.cell import Cell, FirstValues, Shapes, Uniform, check_number, check_size
from unspool.cells.functions import ACTIVATIONS, check_activation, sigmoid, tanh
from unspool.cells.symbols import Symbol


class IndRNN(Cell):
    """Independently recurrent network (Li et al., 2018): the recurrent weight is one number per unit."""

    def __init__(self, activation: str = "relu") -> None:
        self.activation = check_activation("activation", activation)

    def first_values(self, shapes: Shapes, uniform: Uniform) -> FirstValues:
        return {"u": [uniform(0, 1) for _ in range(*shapes["u"])]}

    def step(self, x: Symbol, h: Symbol) -> Symbol:
        return ACTIVATIONS[self.activation](self.linear("h", x) + self.vector("u") * h)


class SRU(Cell):
    """Simple recurrent unit (Lei et al., 2018): a memory c whose gates see c unit by unit, and a highway around it.

    The highway carries P x, with the matrix P that the authors' code has where x and h differ in width. `alpha` scales
    it; √3 keeps the variance of the output at the start.
    """

    keeps = {"f": +1}

    def __init__(self, alpha: float = 1.732) -> None:
        self.alpha = check_number("alpha", alpha, "Give a factor, such as alpha=1")

    def step(self, x: Symbol, h: Symbol, c: Symbol) -> tuple[Symbol, Symbol]:
        f = sigmoid(self.linear("f", x) + self.vector("v_f") * c)
        r = sigmoid(self.linear("r", x) + self.vector("v_r") * c)
        c = f * c + (1 - f) * self.linear("c", x, bias=False)
        h = r * c + self.alpha * (1 - r) * self.linear("p", x, bias=False)
        return h, c


class QRNN(Cell):
    """Quasi-recurrent network (Bradbury et al., 2017): gates are convolutions of the last `window` inputs, fo-pooling.

    Its states are h, c, x_1, …: x_j is the input j steps ago.
    """

    keeps = {"f": +1}

    def __init__(self, window: int = 2) -> None:
        self.window = check_size("window", window)

    @property
    def states(self) -> tuple[str, ...]:
        return ("h", "c", *(f"x_{j}" for j in range(1, self.window)))

    @property
    def state_widths(self) -> Mapping[str, str]:
        return dict.fromkeys(self.states[2:], "input")

    def step(self, x: Symbol, h: Symbol, c: Symbol, *past: Symbol) -> tuple[Symbol, ...]:  # noqa: ARG002
        z = tanh(self.linear("z", x, *past))
        f = sigmoid(self.linear("f", x, *past))
        o = sigmoid(self.linear("o", x, *past))
        c = f * c + (1 - f) * z
        return o * c, c, *(x, *past)[: self.window - 1]
