"""Gates that read the input alone: minGRU and minLSTM, with no product with the state."""

from __future__ import annotations

from unspool.cells.cell import Cell
from unspool.cells.functions import sigmoid
from unspool.cells.symbols import Symbol


class MinGRU(Cell):
    """Minimal GRU (Feng et al., 2024): the gate and the candidate do not read the state, and there is no tanh."""

    keeps = {"z": -1}

    def step(self, x: Symbol, h: Symbol) -> Symbol:
        z = sigmoid(self.linear("z", x))
        n = self.linear("n", x)
        return (1 - z) * h + z * n


class MinLSTM(Cell):
    """Minimal LSTM (Feng et al., 2024): one state, and gates f and i of the input alone that add up to 1."""

    keeps = {"f": +1}
    writes = {"i": +1}

    def step(self, x: Symbol, h: Symbol) -> Symbol:
        keep, write = sigmoid(self.linear("f", x)), sigmoid(self.linear("i", x))
        f, i = keep / (keep + write), write / (keep + write)
        n = self.linear("n", x)
        return f * h + i * n
