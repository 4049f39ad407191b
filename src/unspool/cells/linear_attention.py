"""Linear attention as a recurrence: the state of each head is a matrix that maps keys to values.

Each cell is the recurrence of its paper, and the linear layer that brings the heads together. Gated linear attention
adds up without bound, so what its heads show is normalized and gated, as published. What else a published block has
around it, such as convolutions and feed-forward layers, is for the model.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from unspool.cells.cell import Cell, check_size
from unspool.cells.functions import exp, log_sigmoid, sigmoid, silu, sqrt
from unspool.cells.matrices import mean_units, outer, sum_units, vecmat
from unspool.cells.symbols import Symbol

KEYS, VALUES = "heads*key", "heads*value"


class LinearAttention(Cell):
    """What cells with a matrix per head share: `heads` matrices of `size` rows (keys) and as many columns (values)."""

    def __init__(self, heads: int = 4, size: int = 16) -> None:
        self.heads, self.size = check_size("heads", heads), check_size("size", size)

    @property
    def sizes(self) -> Mapping[str, int]:
        return {"heads": self.heads, "key": self.size, "value": self.size}

    @property
    def state_widths(self) -> Mapping[str, str]:
        return {"s": "heads*key*value"}


def unit_length(v: Symbol) -> Symbol:
    """The part of each head divided by its length."""
    return v / sqrt(sum_units(v * v, keep="heads") + 1e-6)


def normalize_heads(v: Symbol) -> Symbol:
    """Layer normalization of the part of each head, without a scale."""
    centered = v - mean_units(v, keep="heads")
    return centered / sqrt(mean_units(centered * centered, keep="heads") + 1e-5)


class GatedLinearAttention(LinearAttention):
    """Gated linear attention (Yang et al., 2024): every key forgets at its own pace, σ(·)^(1/16).

    What a head shows is normalized, then gated by g.
    """

    keeps = {"a": +1}

    def step(self, x: Symbol, h: Symbol, s: Symbol) -> tuple[Symbol, Symbol]:  # noqa: ARG002
        q = self.linear("q", x, bias=False, width=KEYS) / math.sqrt(self.size)
        k = self.linear("k", x, bias=False, width=KEYS)
        v = self.linear("v", x, bias=False, width=VALUES)
        a = exp(log_sigmoid(self.linear("a", x, width=KEYS)) / 16)
        g = silu(self.linear("g", x, width=VALUES))
        s = a * s + outer(k, v)
        shown = self.vector("scale", 1.0, width=VALUES) * normalize_heads(vecmat(q, s))
        return self.linear("h", g * shown, bias=False), s


class DeltaNet(LinearAttention):
    """Linear attention by the delta rule (Schlag et al., 2021; Yang et al., 2024): what a key holds is overwritten."""

    def step(self, x: Symbol, h: Symbol, s: Symbol) -> tuple[Symbol, Symbol]:  # noqa: ARG002
        q = unit_length(silu(self.linear("q", x, bias=False, width=KEYS)))
        k = unit_length(silu(self.linear("k", x, bias=False, width=KEYS)))
        v = silu(self.linear("v", x, bias=False, width=VALUES))
        b = sigmoid(self.linear("b", x, bias=False, width="heads"))
        s = s + outer(b * k, v - vecmat(k, s))
        return self.linear("h", vecmat(q, s), bias=False), s


class RWKV7(LinearAttention):
    """The time mixing of RWKV-7 (Peng et al., 2025): a decay per key, and the delta rule along another key.

    Every map reads its own mix of x and the input before it. The low-rank networks of the paper are linear maps here.
    """

    @property
    def state_widths(self) -> Mapping[str, str]:
        return {"s": "heads*key*value", "before": "input"}

    def step(self, x: Symbol, h: Symbol, s: Symbol, before: Symbol) -> tuple[Symbol, ...]:  # noqa: ARG002
        def read(name: str, width: str = KEYS) -> Symbol:
            mixed = x + self.vector(f"mu_{name}", 0.5, width="input") * (before - x)
            return self.linear(name, mixed, bias=name in "wa", width=width)

        r, k, v = read("r"), read("k"), read("v", VALUES)
        w = exp(-0.606531 * sigmoid(read("w")))
        a = sigmoid(read("a"))
        remove = unit_length(k * self.vector("xi", 1.0, width=KEYS))
        add = k * (1 + (a - 1) * self.vector("alpha", 1.0, width=KEYS))
        s = w * s - outer(a * remove, vecmat(remove, s)) + outer(add, v)
        return self.linear("h", vecmat(r, s), bias=False), s, x
