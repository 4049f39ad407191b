"""Long short-term memory."""

from __future__ import annotations

from collections.abc import Mapping

from unspool.cells.cell import Cell, check_number, check_size
from unspool.cells.functions import normalise, sigmoid, sqrt, tanh
from unspool.cells.matrices import mean_units
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


class LayerNormLSTM(Cell):
    """LSTM with layer normalization (Ba et al., 2016): over all gates of W x, over all of U h, and of the memory shown.

    The three shifts that the paper adds to a gate are one vector here, and the gains of W x and of U h two.
    """

    keeps = {"f": +1}
    writes = {"i": +1}

    def normalised(self, side: str, v: Symbol) -> dict[str, Symbol]:
        """The products of all four gates with v, normalized together."""
        a = {gate: self.linear(gate + side, v, bias=False) for gate in "ifgo"}
        mean = self.name(f"mean_{side}", mean_of(list(map(mean_units, a.values()))))
        a = {gate: value - mean for gate, value in a.items()}
        deviation = self.name(f"std_{side}", sqrt(mean_of([mean_units(v * v) for v in a.values()]) + 1e-5))
        return {gate: self.vector(f"gain_{gate}{side}", 1.0) * value / deviation for gate, value in a.items()}

    def step(self, x: Symbol, h: Symbol, c: Symbol) -> tuple[Symbol, Symbol]:
        wx, uh = self.normalised("x", x), self.normalised("h", h)
        i, f, o = (sigmoid(wx[gate] + uh[gate] + self.vector(f"bias_{gate}")) for gate in "ifo")
        g = tanh(wx["g"] + uh["g"] + self.vector("bias_g"))
        c = f * c + i * g
        return o * tanh(self.vector("gain_c", 1.0) * normalise(c) + self.vector("bias_c")), c


def mean_of(values: list[Symbol]) -> Symbol:
    """The mean of several values, unit by unit."""
    total = values[0]
    for value in values[1:]:
        total = total + value
    return total / len(values)
