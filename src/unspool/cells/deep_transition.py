"""Deep transition: one state, and several layers between its old and its new value."""

from __future__ import annotations

from unspool.cells.cell import Cell, check_size
from unspool.cells.functions import ACTIVATIONS, check_activation
from unspool.cells.symbols import Symbol


class DeepTransition(Cell):
    """The new state is a `depth`-layer perceptron of the old state and the input. Depth 1 is Elman's network."""

    def __init__(self, depth: int = 2, activation: str = "tanh") -> None:
        self.depth = check_size("depth", depth)
        self.activation = check_activation("activation", activation)

    def step(self, x: Symbol, h: Symbol) -> Symbol:
        phi = ACTIVATIONS[self.activation]
        v = self.name("v1", phi(self.linear("h", x, h)))
        for layer in range(2, self.depth + 1):
            v = self.name(f"v{layer}", phi(self.linear(f"h{layer}", v)))
        return v
