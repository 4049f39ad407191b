"""Antisymmetric recurrent network: a differential equation that neither forgets nor explodes."""

from __future__ import annotations

import math

from unspool.cells.cell import Cell, FirstValues, Shapes, Uniform, check_number
from unspool.cells.functions import tanh
from unspool.cells.matrices import matvec, vecmat
from unspool.cells.symbols import Symbol


class Antisymmetric(Cell):
    """Antisymmetric network (Chang et al., 2019): h + epsilon · tanh((A − Aᵀ − gamma I) h + W x + b).

    A is one matrix that is read from both sides, so that its product is not shared by the rows of a batch.
    """

    def __init__(self, epsilon: float = 0.01, gamma: float = 0.01) -> None:
        self.epsilon = check_number(
            "epsilon", epsilon, "Give the length of a step, such as epsilon=0.01", positive=True
        )
        self.gamma = check_number("gamma", gamma, "Give the diffusion, such as gamma=0.01")

    def first_values(self, shapes: Shapes, uniform: Uniform) -> FirstValues:
        (size,) = shapes["a"]
        bound = math.sqrt(3) / size**0.25  # the variance of the paper's normal numbers, 1/H
        return {"a": [uniform(-bound, bound) for _ in range(size)]}

    def step(self, x: Symbol, h: Symbol) -> Symbol:
        a = self.vector("a", width="hidden*hidden")
        turned = matvec(a, h) - vecmat(h, a)
        return h + self.epsilon * tanh(turned - self.gamma * h + self.linear("h", x))
