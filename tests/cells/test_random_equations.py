"""Equations drawn at random: as printed, in NumPy and in torch they have one value."""

from __future__ import annotations

import operator
from collections.abc import Callable
from itertools import count
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.cells.latex_reader import evaluate
from tests.variants import cell_of

from unspool.cells import (
    Cell,
    Symbol,
    absolute,
    cos,
    cumsum,
    erf,
    log1p,
    max_units,
    maximum,
    mean_units,
    minimum,
    normalise,
    relu,
    sigmoid,
    silu,
    sin,
    softmax,
    softplus,
    sqrt,
    sum_units,
    tanh,
    where,
)  # fmt: skip
from unspool.engine import run
from unspool.nn.recurrent import Recurrent

Expression = Callable[[Cell, Any, Symbol, Symbol], Symbol]


def leaf(read: Callable[[Cell, Symbol, Symbol], Symbol]) -> Expression:
    return lambda self, _, x, h: read(self, x, h)


def unary(function: Callable[[Symbol], Symbol], a: Expression) -> Expression:
    return lambda *given: function(a(*given))


def binary(function: Callable[[Symbol, Symbol], Symbol], a: Expression, b: Expression) -> Expression:
    return lambda *given: function(a(*given), b(*given))


def linear(a: Expression, bias: bool) -> Expression:
    return lambda self, names, x, h: self.linear(f"m{next(names)}", a(self, names, x, h), bias=bias)


def select(a: Expression, b: Expression, c: Expression, d: Expression, strict: bool) -> Expression:
    compare: Any = operator.lt if strict else operator.ge
    return lambda *given: where(compare(a(*given), b(*given)), c(*given), d(*given))


def grow(inner: st.SearchStrategy[Expression]) -> st.SearchStrategy[Expression]:
    functions: list[Any] = [
        operator.neg, tanh, sigmoid, relu, absolute, normalise, lambda v: sqrt(v * v + 0.3),
        lambda v: v - 2, lambda v: -0.5 - v, lambda v: v * -3, lambda v: 2 * v, lambda v: v / 4,
        lambda v: 1 / (2 + abs(v)), sin, cos, erf, silu, lambda v: softplus(tanh(v)), lambda v: log1p(v * v),
        lambda v: softmax(tanh(v)), cumsum, lambda v: v * mean_units(v), lambda v: v - tanh(sum_units(v)),
        lambda v: v - max_units(v),
    ]  # fmt: skip
    pairs: list[Any] = [operator.add, operator.sub, operator.mul, minimum, maximum, lambda a, b: a / (1.5 + b * b)]
    return st.one_of(
        st.builds(unary, st.sampled_from(functions), inner),
        st.builds(binary, st.sampled_from(pairs), inner, inner),
        st.builds(linear, inner, st.booleans()),
        st.builds(select, inner, inner, inner, inner, st.booleans()),
    )


LEAVES: list[Expression] = [
    leaf(lambda self, x, h: h),
    leaf(lambda self, x, h: self.linear("a", x, h)),
    leaf(lambda self, x, h: self.vector("v", 0.5)),
]
expressions = st.recursive(st.sampled_from(LEAVES), grow, max_leaves=12)


@settings(deadline=None, max_examples=200, derandomize=True)  # a comparison may hang on the last digit
@given(expressions, st.integers(0, 2**32 - 1))
def test_one_value(expression: Expression, seed: int) -> None:
    cell = cell_of(lambda self, x, h: expression(self, count(1), x, h))
    equations = cell.equations()
    generator = np.random.default_rng(seed)
    p = {name: generator.normal(size=shape) for name, shape in equations.shapes(3, 4).items()}
    x, h = generator.normal(size=(1, 1, 3)), generator.normal(size=(1, 4))
    layer = Recurrent(cell, 3, 4, dtype=torch.float64)
    layer.load_state_dict({name: torch.from_numpy(value) for name, value in p.items()})
    with torch.no_grad(), pytest.MonkeyPatch.context() as environment:
        environment.setenv("UNSPOOL_ENGINE", "off")  # compiling each would take hours
        found = layer(torch.from_numpy(x), torch.from_numpy(h))[0].numpy()
    printed = {"x_t": x[0, 0], "h_{t-1}": h[0]}
    printed |= {f"{name[0]}_{{{name[2:]}}}" if "_" in name else name: value for name, value in p.items()}
    expected = evaluate(cell.latex(), printed)["h_t"]
    scale = max(1.0, float(np.abs(expected).max()))
    np.testing.assert_allclose(found[0, 0], expected, rtol=1e-9, atol=1e-9 * scale)
    if {"W_a", "v"} & set(p) or any(name.startswith("U_") for name in p):  # else the hidden size is not known
        np.testing.assert_allclose(run(cell, p, x, (h,))[0], found, rtol=1e-9, atol=1e-9 * scale)
