"""Gated recurrent units: two published forms, which differ in the reset gate and in what z means, and a smaller one."""

from __future__ import annotations

from unspool.cells.cell import Cell
from unspool.cells.functions import sigmoid, tanh
from unspool.cells.symbols import Symbol


class GRU(Cell):
    """Gated recurrent unit; the reset gate acts before the recurrent product and z takes the new state.

    Not torch.nn.GRU, which is `ResetAfterGRU`; nor quite ONNX's `linear_before_reset=0`, where z keeps the old state.
    """

    keeps = {"z": -1}

    def step(self, x: Symbol, h: Symbol) -> Symbol:
        r = sigmoid(self.linear("r", x, h))
        z = sigmoid(self.linear("z", x, h))
        n = tanh(self.linear("n", x, r * h))
        return (1 - z) * h + z * n


class ResetAfterGRU(Cell):
    """Gated recurrent unit as in torch.nn: the reset gate acts after the recurrent product; z keeps the old state."""

    keeps = {"z": +1}

    def step(self, x: Symbol, h: Symbol) -> Symbol:
        r = sigmoid(self.linear("r", x, h))
        z = sigmoid(self.linear("z", x, h))
        n = tanh(self.linear("n", x) + r * self.linear("hn", h))
        return (1 - z) * n + z * h


class MGU(Cell):
    """Minimal gated unit (Zhou et al., 2016): one gate f is the reset gate and the update gate of a GRU."""

    keeps = {"f": -1}

    def step(self, x: Symbol, h: Symbol) -> Symbol:
        f = sigmoid(self.linear("f", x, h))
        n = tanh(self.linear("n", x, f * h))
        return (1 - f) * h + f * n
