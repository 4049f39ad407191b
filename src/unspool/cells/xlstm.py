"""The cells of the extended LSTM (Beck et al., 2024): exponential gates, kept finite by a stabilizer."""

from __future__ import annotations

from unspool.cells.cell import Cell
from unspool.cells.functions import absolute, exp, log, maximum, relu, sigmoid, tanh
from unspool.cells.symbols import Symbol


class SLSTM(Cell):
    """sLSTM: an LSTM with exponential input gate, a normalizer n and a stabilizer m, the logarithm of what was kept."""

    keeps = {"f": +1}
    writes = {"i": +1}

    def step(self, x: Symbol, h: Symbol, c: Symbol, n: Symbol, m: Symbol) -> tuple[Symbol, ...]:
        log_i, log_f = self.linear("i", x, h), -softplus(-self.linear("f", x, h))
        z = tanh(self.linear("z", x, h))
        o = sigmoid(self.linear("o", x, h))
        new = maximum(log_f + m, log_i)
        i, f = exp(log_i - new), exp(log_f + m - new)
        c = f * c + i * z
        n = f * n + i
        return o * (c / n), c, n, new


def softplus(v: Symbol) -> Symbol:
    """ln(1 + eᵛ), without overflow."""
    return relu(v) + log(1 + exp(-absolute(v)))
