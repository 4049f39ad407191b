"""Reads the LaTeX of a cell as a mathematician would, and computes with it: the printer's independent twin.

    sum     = ["−"] product {("+" | "−") product}
    product = term {("⊙" | thin space) term}
    term    = atom {atom}                            a matrix before a vector: their product

A sign may not follow another operator: what is printed must be good typesetting too.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

NAME = r"(?:\\mathrm\{\w+\}|[A-Za-z])(?:\^\{\([^()]+\)\})?(?:_(?:\{[^{}]+\}|\w))?"
TOKEN = re.compile(
    rf"\s*(\\left[(|]|\\right[)|]|\\(?:operatorname|begin|end|text)\{{\w+\}}|{NAME}|\\\w+|\\[,\\]|\d+(?:\.\d+)?|.)"
)


def _norm(v: Array) -> Array:
    result: Array = (v - v.mean()) / np.sqrt(v.var() + 1e-5)
    return result


FUNCTIONS: dict[str, Callable[..., Array]] = {
    r"\sigma": lambda v: 1 / (1 + np.exp(-v)),
    r"\tanh": np.tanh,
    r"\operatorname{relu}": lambda v: np.where(v > 0, v, 0),
    r"\exp": np.exp,
    r"\ln": np.log,
    r"\min": np.minimum,
    r"\max": np.maximum,
    r"\operatorname{norm}": _norm,
    r"\operatorname{log1p}": np.log1p,
    r"\sin": np.sin,
    r"\cos": np.cos,
    r"\operatorname{erf}": np.vectorize(math.erf),
    r"\operatorname{softplus}": lambda v: np.log(1 + np.exp(v)),
    r"\operatorname{softmax}": lambda v: np.exp(v) / np.exp(v).sum(),
    r"\operatorname{cumsum}": np.cumsum,
    r"\operatorname{sum}": np.sum,
    r"\operatorname{mean}": np.mean,
    r"\operatorname{largest}": np.max,
}


def evaluate(text: str, values: Mapping[str, Array]) -> dict[str, Array]:
    """The value of every left-hand side, from the values of the other names; each line may use those above it."""
    begin, end = "\\begin{aligned}\n", "\n\\end{aligned}"
    assert text.startswith(begin)
    assert text.endswith(end)
    known, found = dict(values), {}
    for line in text.removeprefix(begin).removesuffix(end).split(" \\\\\n"):
        name, _, right = line.partition(" &= ")
        found[name] = known[name] = Reader(right, known).all()
    return found


class Reader:
    """One right-hand side."""

    def __init__(self, text: str, values: Mapping[str, Array]) -> None:
        self.tokens = TOKEN.findall(text)
        self.values = values

    def all(self) -> Array:
        value = self.sum()
        assert not self.tokens, f"left over: {self.tokens}"
        return value

    def next(self, *expected: str) -> str:
        token: str = self.tokens.pop(0)
        assert not expected or token in expected, f"{token} where {expected} should be"
        return token

    def at(self, *tokens: str) -> bool:
        return bool(self.tokens) and self.tokens[0] in tokens

    def sum(self) -> Array:
        if self.at("-"):
            self.next()
            value = -self.product()
        else:
            value = self.product()
        while self.at("+", "-"):
            value = value + self.product() if self.next() == "+" else value - self.product()
        return value

    def product(self) -> Array:
        value = self.term()
        while self.at(r"\odot", r"\,"):
            self.next()
            value = value * self.term()
        return value

    def term(self) -> Array:
        value = self.atom()
        while self.tokens and not self.at(*"+-,<&}", r"\le", r"\odot", r"\,", r"\right)", r"\right|", r"\\"):
            assert value.ndim == 2, "only a matrix may stand before its operand without a sign"
            value = value @ self.atom()
        return value

    def atom(self) -> Array:
        token = self.next()
        if token[0].isdigit():
            return self.power(float(token))
        if token == r"\left(":
            return self.until(r"\right)")
        if token == r"\left|":
            return np.abs(self.until(r"\right|"))
        if token == r"\frac":
            return self.braces() / self.braces()
        if token == r"\sqrt":
            return np.sqrt(self.braces())
        if token == r"\begin{cases}":
            return self.cases()
        if token in FUNCTIONS:
            self.next(r"\left(")
            operands = [self.sum()]
            while self.next(",", r"\right)") == ",":
                operands.append(self.sum())
            return FUNCTIONS[token](*operands)
        return self.values[token]

    def power(self, number: float) -> Array:
        """A number, with the exponent that may follow it."""
        if not self.at("^"):
            return np.array(number)
        self.next()
        return np.asarray(number ** self.braces())

    def until(self, closing: str) -> Array:
        value = self.sum()
        self.next(closing)
        return value

    def braces(self) -> Array:
        self.next("{")
        return self.until("}")

    def cases(self) -> Array:
        yes = self.until("&")
        left = self.sum()
        less = self.next("<", r"\le") == "<"
        right = self.until(r"\\")
        no = self.until("&")
        self.next(r"\text{else}")
        self.next(r"\end{cases}")
        return np.where(left < right if less else left <= right, yes, no)
