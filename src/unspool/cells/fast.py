"""FastGRNN: a gate for the price of a simple recurrent network."""

from __future__ import annotations

from collections.abc import Mapping

from unspool.cells.cell import Cell, check_size
from unspool.cells.functions import sigmoid, tanh
from unspool.cells.symbols import Symbol


class FastGRNN(Cell):
    """FastGRNN (Kusupati et al., 2018): the gate and the candidate share their matrices; ζ and ν are two numbers.

    With `rank`, both matrices are products of two that narrow.
    """

    keeps = {"z": +1}

    def __init__(self, rank: int | None = None) -> None:
        self.rank = None if rank is None else check_size("rank", rank)

    @property
    def sizes(self) -> Mapping[str, int]:
        return {"rank": self.rank} if self.rank else {}

    def step(self, x: Symbol, h: Symbol) -> Symbol:
        read = (x, h)
        if self.rank:
            read = (self.linear("x", x, bias=False, width="rank"), self.linear("s", h, bias=False, width="rank"))
        a = self.linear("h", *read, bias=False)
        z = sigmoid(a + self.vector("bias_z", 1.0))
        n = tanh(a + self.vector("bias_n", 1.0))
        write = sigmoid(self.vector("zeta", 1.0, "one")) * (1 - z) + sigmoid(self.vector("nu", -4.0, "one"))
        return write * n + z * h
