"""Short ways through time: residual, skipping and leaky cells."""

from __future__ import annotations

from unspool.cells.cell import Cell, check_number, check_size
from unspool.cells.functions import ACTIVATIONS, check_activation, tanh
from unspool.cells.symbols import Symbol
from unspool.errors import ArgumentError


class Residual(Cell):
    """The state is added to, not replaced: h + f(x, h), so that its Jacobian is I + ∂f/∂h."""

    def __init__(self, activation: str = "tanh") -> None:
        self.activation = check_activation("activation", activation)

    def step(self, x: Symbol, h: Symbol) -> Symbol:
        f = ACTIVATIONS[self.activation](self.linear("f", x, h))
        return h + f


class Skip(Cell):
    """Reads the state of the last step and the one `span` steps ago; the states in between are carried along.

    Its states are h, h_1, …: h_j is the state j steps before h.
    """

    def __init__(self, span: int = 2, activation: str = "tanh") -> None:
        self.span = check_size("span", span)
        if self.span < 2:
            raise ArgumentError.of("span", span, "does not skip anything", "Give 2 or more, or take the Elman cell")
        self.activation = check_activation("activation", activation)

    @property
    def states(self) -> tuple[str, ...]:
        return ("h", *(f"h_{j}" for j in range(1, self.span)))

    def step(self, x: Symbol, h: Symbol, *past: Symbol) -> tuple[Symbol, ...]:
        new = ACTIVATIONS[self.activation](self.linear("h", x, h, past[-1]))
        return new, h, *past[:-1]


class Leaky(Cell):
    """An Euler step of dh/dt = −alpha·h + tanh(U h + W x + b), of length `dt`."""

    def __init__(self, dt: float = 0.1, alpha: float = 1.0) -> None:
        self.dt = check_number("dt", dt, "Give the time between steps, such as dt=0.1", positive=True)
        self.alpha = check_number("alpha", alpha, "Give the rate of decay, such as alpha=1")

    def step(self, x: Symbol, h: Symbol) -> Symbol:
        return h + self.dt * (tanh(self.linear("h", x, h)) - self.alpha * h)
