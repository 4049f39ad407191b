"""The cells of the extended LSTM (Beck et al., 2024): exponential gates, kept finite by a stabilizer."""

from __future__ import annotations

import math
from collections.abc import Mapping

from unspool.cells.cell import Cell
from unspool.cells.functions import absolute, exp, log_sigmoid, maximum, sigmoid, tanh
from unspool.cells.linear_attention import LinearAttention
from unspool.cells.matrices import outer, sum_units, vecmat
from unspool.cells.symbols import Symbol


class SLSTM(Cell):
    """sLSTM: an LSTM with exponential input gate, a normalizer n and a stabilizer m, the logarithm of what was kept."""

    keeps = {"f": +1}
    writes = {"i": +1}

    def step(self, x: Symbol, h: Symbol, c: Symbol, n: Symbol, m: Symbol) -> tuple[Symbol, ...]:
        log_i, log_f = self.linear("i", x, h), log_sigmoid(self.linear("f", x, h))
        z = tanh(self.linear("z", x, h))
        o = sigmoid(self.linear("o", x, h))
        new = maximum(log_f + m, log_i)
        i, f = exp(log_i - new), exp(log_f + m - new)
        c = f * c + i * z
        n = f * n + i
        return o * (c / n), c, n, new


class MLSTM(LinearAttention):
    """mLSTM: the memory of each head is a matrix of `size` keys and values; nothing reads the last output.

    h is what the heads show behind their output gates, brought together by a linear layer.
    """

    keeps = {"f": +1}
    writes = {"i": +1}

    @property
    def state_widths(self) -> Mapping[str, str]:
        return {"c": "heads*key*value", "n": "heads*key", "m": "heads"}

    def step(self, x: Symbol, h: Symbol, c: Symbol, n: Symbol, m: Symbol) -> tuple[Symbol, ...]:  # noqa: ARG002
        q, k = self.linear("q", x, width="heads*key"), self.linear("k", x, width="heads*key") / math.sqrt(self.size)
        v, o = self.linear("v", x, width="heads*value"), sigmoid(self.linear("o", x, width="heads*value"))
        log_i, log_f = self.linear("i", x, width="heads"), log_sigmoid(self.linear("f", x, width="heads"))
        new = maximum(log_f + m, log_i)
        i, f = exp(log_i - new), exp(log_f + m - new)
        c = f * c + outer(i * k, v)
        n = f * n + i * k
        scale = maximum(absolute(sum_units(n * q, keep="heads")), exp(-new))
        return self.linear("h", o * (vecmat(q, c) / scale), bias=False), c, n, new
