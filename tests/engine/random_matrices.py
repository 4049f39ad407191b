"""Cells with a matrix for a state, drawn at random: what is written, what decays, what is read."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random

from unspool.cells import (
    Cell,
    Symbol,
    absolute,
    matvec,
    maximum,
    mean_units,
    outer,
    scale_columns,
    sigmoid,
    softmax,
    sum_units,
    tanh,
    vecmat,
)


class RandomMatrices(Cell):
    """A read-out h, a matrix S per head and a vector n per head, whose equations follow from `seed`."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.inputs = {"dt": "one"} if seed % 2 else {}

    @property
    def sizes(self) -> Mapping[str, int | str]:
        random = Random(f"{self.seed} sizes")
        return {"heads": random.choice((1, 2, 3)), "key": random.choice((1, 3, 8)), "value": random.choice((1, 2, 9))}

    @property
    def states(self) -> tuple[str, ...]:
        return ("h", "S", "n")

    @property
    def state_widths(self) -> Mapping[str, str]:
        return {"S": "heads*key*value", "n": "heads*key"}

    def step(
        self,
        x: Symbol,
        h: Symbol,
        S: Symbol,
        n: Symbol,
        dt: Symbol | None = None,
    ) -> tuple[Symbol, ...]:
        random = Random(f"{self.seed} step")
        k, q = (random.choice((tanh, softmax, sigmoid))(self._map(name, "key", x, h)) for name in "kq")
        v = self._map("v", "value", x, h)
        if random.random() < 0.5:
            v = v + tanh(self.block_linear("b", v, bias=random.random() < 0.5))
        if random.random() < 0.5:
            v = v - vecmat(k, S)
        f = sigmoid(self._decay(random, x, h))
        new = 0.4 * outer(k, v) * (1 if dt is None else sigmoid(dt))
        S = f * S + new if f.width != "heads*value" else scale_columns(S, f) + new
        if random.random() < 0.3:
            S = tanh(S)
        n = 0.5 * n + k
        y = vecmat(q, S)
        if random.random() < 0.5:
            y = y / (1 + maximum(absolute(sum_units(q * n, keep="heads")), 0.2))
        if random.random() < 0.3:
            y = y - mean_units(y, keep="heads")
        r = matvec(S, tanh(v)) if random.random() < 0.5 else k
        return tanh(self.linear("h", y, r, x)), S, n

    def _map(self, name: str, size: str, x: Symbol, h: Symbol) -> Symbol:
        return self.linear(name, x, h, width=f"heads*{size}")

    def _decay(self, random: Random, x: Symbol, h: Symbol) -> Symbol:
        """A number for all, per head, per row of the matrix or per column."""
        width = random.choice(("one", "heads", "heads*key", "heads*value"))
        return self.linear("f", x, h, width=width) if random.random() < 0.7 else self.vector("f", 1.0, width=width)
