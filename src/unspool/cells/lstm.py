"""Long short-term memory."""

from __future__ import annotations

from collections.abc import Mapping

from unspool.cells.cell import Cell, check_number, check_size
from unspool.cells.functions import sigmoid, tanh
from unspool.cells.symbols import Symbol


class LSTM(Cell):
    """Long short-term memory: gates decide what the memory c forgets, takes in and shows.

    `projection` makes the shown state that narrow, by a linear map without bias.
    """

    keeps = {"f": +1}
    writes = {"i": +1}

    def __init__(self, projection: int | None = None) -> None:
        self.projection = None if projection is None else check_size("projection", projection)

    @property
    def sizes(self) -> Mapping[str, int]:
        return {"projection": self.projection} if self.projection else {}

    @property
    def state_widths(self) -> Mapping[str, str]:
        return {"h": "projection"} if self.projection else {}

    def step(self, x: Symbol, h: Symbol, c: Symbol) -> tuple[Symbol, Symbol]:
        i = sigmoid(self.linear("i", x, h))
        f = sigmoid(self.linear("f", x, h))
        g = tanh(self.linear("g", x, h))
        o = sigmoid(self.linear("o", x, h))
        c = f * c + i * g
        h = o * tanh(c)
        if self.projection:
            h = self.linear("p", h, bias=False, width="projection")
        return h, c


class OpenLSTM(Cell):
    """LSTM whose output gate is held open (o ≡ 1), so that stacked layers do not attenuate a signal twice."""

    keeps = {"f": +1}
    writes = {"i": +1}

    def step(self, x: Symbol, h: Symbol, c: Symbol) -> tuple[Symbol, Symbol]:
        i = sigmoid(self.linear("i", x, h))
        f = sigmoid(self.linear("f", x, h))
        g = tanh(self.linear("g", x, h))
        c = f * c + i * g
        return tanh(c), c


class PeepholeLSTM(Cell):
    """LSTM whose gates also see the memory, unit by unit (Gers et al., 2002); the output gate sees the new one."""

    keeps = {"f": +1}
    writes = {"i": +1}

    def step(self, x: Symbol, h: Symbol, c: Symbol) -> tuple[Symbol, Symbol]:
        i = sigmoid(self.linear("i", x, h) + self.vector("p_i") * c)
        f = sigmoid(self.linear("f", x, h) + self.vector("p_f") * c)
        g = tanh(self.linear("g", x, h))
        c = f * c + i * g
        o = sigmoid(self.linear("o", x, h) + self.vector("p_o") * c)
        return o * tanh(c), c


class JANET(Cell):
    """Just another network (van der Westhuizen and Lasenby, 2018): an LSTM with a forget gate only.

    `beta` lets the unit take in more than it forgets: i = 1 − σ(s − beta), with s what the forget gate is made of. The
    paper starts it with `nn.init.chrono_`.
    """

    keeps = {"f": +1}

    def __init__(self, beta: float = 1.0) -> None:
        self.beta = check_number("beta", beta, "Give the shift of the gate that writes, such as beta=1")

    def step(self, x: Symbol, h: Symbol) -> Symbol:
        s = self.linear("f", x, h)
        f, i = sigmoid(s), sigmoid(self.beta - s)
        n = tanh(self.linear("n", x, h))
        return f * h + i * n
