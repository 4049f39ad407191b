"""Recurrent highway network: several gated layers between the old and the new state."""

from __future__ import annotations

from unspool.cells.cell import Cell, FirstValues, Shapes, Uniform, check_size
from unspool.cells.functions import sigmoid, tanh
from unspool.cells.symbols import Symbol


class RHN(Cell):
    """Recurrent highway network (Zilly et al., 2017) with coupled gates: `depth` highway layers in one step.

    The transform gates t1, t2, … start nearly shut, with biases of −2.
    """

    def __init__(self, depth: int = 3) -> None:
        self.depth = check_size("depth", depth)

    @property
    def keeps(self) -> dict[str, int]:  # type: ignore[override]
        """The transform gates: the state passes where they are shut."""
        return {f"t{layer}": -1 for layer in range(1, self.depth + 1)}

    def first_values(self, shapes: Shapes, uniform: Uniform) -> FirstValues:  # noqa: ARG002
        return {f"b_{gate}": -2.0 for gate in self.keeps}

    def step(self, x: Symbol, s: Symbol) -> Symbol:
        for layer in range(1, self.depth + 1):
            read = (x, s) if layer == 1 else (s,)
            t = self.name(f"t{layer}", sigmoid(self.linear(f"t{layer}", *read)))
            h = self.name(f"h{layer}", tanh(self.linear(f"h{layer}", *read)))
            s = self.name(f"s{layer}", t * h + (1 - t) * s)
        return s
