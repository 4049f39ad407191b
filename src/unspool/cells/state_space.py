"""Linear recurrences of each unit: state-space models with gates or complex poles."""

from __future__ import annotations

import math

from unspool.cells.cell import Cell, FirstValues, Shapes, Uniform, check_number
from unspool.cells.functions import absolute, exp, log, relu, sigmoid, sqrt
from unspool.cells.symbols import Symbol


class RGLRU(Cell):
    """Real-gated linear recurrent unit (De et al., 2024): h = a ⊙ h + √(1 − a²) ⊙ i ⊙ u, with a = e^(−c softplus(Λ) r).

    u is the linear layer that stands before it in the block of the paper; r and i read u. Λ starts such that a unit
    with an open gate r keeps 0.9 to 0.999 of its state.
    """

    def __init__(self, c: float = 8.0) -> None:
        self.c = check_number("c", c, "Give the sharpness of the gate, such as c=8", positive=True)

    def first_values(self, shapes: Shapes, uniform: Uniform) -> FirstValues:
        kept = [uniform(0.9, 0.999) for _ in range(*shapes["lambda"])]
        return {"lambda": [math.log(math.expm1(-math.log(one) / self.c)) for one in kept]}

    def step(self, x: Symbol, h: Symbol) -> Symbol:
        u = self.linear("u", x)
        r = sigmoid(self.linear("r", u))
        i = sigmoid(self.linear("i", u))
        a = exp(-self.c * softplus(self.vector("lambda")) * r)
        # where a rounds to 1 the root's slope would be infinite
        return a * h + sqrt(1 - a * a + 1e-12) * (i * u)


def softplus(v: Symbol) -> Symbol:
    """ln(1 + eᵛ), without overflow."""
    return relu(v) + log(1 + exp(-absolute(v)))
