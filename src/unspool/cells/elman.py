"""Simple recurrent networks: Elman's, Jordan's, and the linear one."""

from __future__ import annotations

from collections.abc import Mapping

from unspool.cells.cell import Cell, check_size
from unspool.cells.functions import ACTIVATIONS, check_activation
from unspool.cells.symbols import Symbol


class Elman(Cell):
    """Simple recurrent network: the state is fed back."""

    def __init__(self, activation: str = "tanh") -> None:
        self.activation = check_activation("activation", activation)

    def step(self, x: Symbol, h: Symbol) -> Symbol:
        phi = ACTIVATIONS[self.activation]
        return phi(self.linear("h", x, h))


class Linear(Cell):
    """Linear recurrent network, h = U h + W x: a state-space model; with a linear head, a VARMA process."""

    def step(self, x: Symbol, h: Symbol) -> Symbol:
        return self.linear("h", x, h, bias=False)


class Jordan(Cell):
    """Simple recurrent network in which the *output* y is fed back, not the hidden value h.

    `output_size` is the width of y; by default it is the hidden size.
    """

    def __init__(
        self, output_size: int | None = None, activation: str = "tanh", output_activation: str = "sigmoid"
    ) -> None:
        self.activation = check_activation("activation", activation)
        self.output_activation = check_activation("output_activation", output_activation)
        self.output_size = None if output_size is None else check_size("output_size", output_size)

    @property
    def sizes(self) -> Mapping[str, int]:
        return {"output": self.output_size} if self.output_size else {}

    @property
    def state_widths(self) -> Mapping[str, str]:
        return {"y": "output"} if self.output_size else {}

    def step(self, x: Symbol, y: Symbol) -> Symbol:
        phi, psi = ACTIVATIONS[self.activation], ACTIVATIONS[self.output_activation]
        h = phi(self.linear("h", x, y))
        return psi(self.linear("y", h, width=self.state_widths.get("y", "hidden")))
