"""The printed equations: exact for the gated cells, and for every cell computed with as they stand on paper."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.cells.latex_reader import evaluate
from tests.variants import Array, cell_of, every_cell, random_batch, random_parameters

from unspool.cells import (
    GRU,
    LSTM,
    Cell,
    Elman,
    Leaky,
    ResetAfterGRU,
    Skip,
    absolute,
    exp,
    maximum,
    minimum,
    sqrt,
    tanh,
    where,
)
from unspool.engine import run


def lines(cell: Cell, **options: bool) -> list[str]:
    text = cell.latex(**options)
    return text.removeprefix("\\begin{aligned}\n").removesuffix("\n\\end{aligned}").split(" \\\\\n")


def right(step: Callable[..., Any]) -> str:
    """The right-hand side of the only line of a cell."""
    (line,) = lines(cell_of(step))
    return line.removeprefix("h_t &= ").replace(r"\left(", "(").replace(r"\right)", ")")


def test_elman() -> None:
    assert Elman().latex() == (
        "\\begin{aligned}\n"
        r"h_t &= \tanh\left(W_{h} x_t + U_{h} h_{t-1} + b_{h}\right)"
        "\n\\end{aligned}"
    )
    assert lines(Elman(), bias=False) == [r"h_t &= \tanh\left(W_{h} x_t + U_{h} h_{t-1}\right)"]


def test_lstm() -> None:
    assert lines(LSTM()) == [
        r"i_t &= \sigma\left(W_{i} x_t + U_{i} h_{t-1} + b_{i}\right)",
        r"f_t &= \sigma\left(W_{f} x_t + U_{f} h_{t-1} + b_{f}\right)",
        r"g_t &= \tanh\left(W_{g} x_t + U_{g} h_{t-1} + b_{g}\right)",
        r"o_t &= \sigma\left(W_{o} x_t + U_{o} h_{t-1} + b_{o}\right)",
        r"c_t &= f_t \odot c_{t-1} + i_t \odot g_t",
        r"h_t &= o_t \odot \tanh\left(c_t\right)",
    ]


def test_gru() -> None:
    assert lines(GRU()) == [
        r"r_t &= \sigma\left(W_{r} x_t + U_{r} h_{t-1} + b_{r}\right)",
        r"z_t &= \sigma\left(W_{z} x_t + U_{z} h_{t-1} + b_{z}\right)",
        r"n_t &= \tanh\left(W_{n} x_t + U_{n} \left(r_t \odot h_{t-1}\right) + b_{n}\right)",
        r"h_t &= \left(1 - z_t\right) \odot h_{t-1} + z_t \odot n_t",
    ]


def test_reset_after_gru() -> None:
    assert lines(ResetAfterGRU())[2:] == [
        r"n_t &= \tanh\left(W_{n} x_t + b_{n} + r_t \odot \left(U_{hn} h_{t-1} + b_{hn}\right)\right)",
        r"h_t &= \left(1 - z_t\right) \odot n_t + z_t \odot h_{t-1}",
    ]
    assert lines(ResetAfterGRU(), bias=False)[2] == r"n_t &= \tanh\left(W_{n} x_t + r_t \odot U_{hn} h_{t-1}\right)"


def test_skip_shows_the_states_that_are_carried_along() -> None:
    assert lines(Skip(3)) == [
        r"h_t &= \tanh\left(W_{h} x_t + U^{(1)}_{h} h_{t-1} + U^{(2)}_{h} h^{(2)}_{t-1} + b_{h}\right)",
        r"h^{(1)}_t &= h_{t-1}",
        r"h^{(2)}_t &= h^{(1)}_{t-1}",
    ]


def test_leaky() -> None:
    inner = r"\tanh\left(W_{h} x_t + U_{h} h_{t-1} + b_{h}\right)"
    assert lines(Leaky(0.1, 2.5)) == [rf"h_t &= h_{{t-1}} + 0.1 \, \left({inner} - 2.5 \, h_{{t-1}}\right)"]


def test_a_notebook_shows_it() -> None:
    assert GRU()._repr_latex_() == f"$${GRU().latex()}$$"


@pytest.mark.parametrize(
    ("step", "text"),
    [
        (lambda self, x, h: h - (h + h), "h - (h + h)"),
        (lambda self, x, h: h - (h - h), "h - (h - h)"),
        (lambda self, x, h: (h - h) - h, "h - h - h"),
        (lambda self, x, h: h - (-h), "h - (-h)"),
        (lambda self, x, h: h + (-h), "h + (-h)"),
        (lambda self, x, h: -h + h, "-h + h"),
        (lambda self, x, h: -(h + h) * h, r"-(h + h) \odot h"),
        (lambda self, x, h: -(h * h), r"-h \odot h"),
        (lambda self, x, h: -(-1 * -h), r"-(-1 \, (-h))"),
        (lambda self, x, h: (h + h) * (h - h), r"(h + h) \odot (h - h)"),
        (lambda self, x, h: h * h + h, r"h \odot h + h"),
        (lambda self, x, h: h * (-h), r"h \odot (-h)"),
        (lambda self, x, h: h + (-h) * tanh(h), r"h + (-h \odot \tanh(h))"),
        (lambda self, x, h: h - (-h) * tanh(h), r"h - (-h \odot \tanh(h))"),
        (lambda self, x, h: h * ((-h) * tanh(h)), r"h \odot (-h \odot \tanh(h))"),
        (lambda self, x, h: tanh(h) + (-h + h), r"\tanh(h) + (-h + h)"),
        (lambda self, x, h: tanh(-h), r"\tanh(-h)"),
        (lambda self, x, h: h - 2, "h - 2"),
        (lambda self, x, h: h - -2, "h - (-2)"),
        (lambda self, x, h: -2 * h, r"-2 \, h"),
        (lambda self, x, h: h * -2, r"h \, (-2)"),
        (lambda self, x, h: (h / (1 + h)) * h, r"\frac{h}{1 + h} \odot h"),
        (lambda self, x, h: h / (h * h), r"\frac{h}{h \odot h}"),
        (lambda self, x, h: -(h / h), r"-\frac{h}{h}"),
        (lambda self, x, h: sqrt(h + 1) * absolute(h - 1), r"\sqrt{h + 1} \odot \left|h - 1\right|"),
        (lambda self, x, h: minimum(h, maximum(0, -h)), r"\min(h, \max(0, -h))"),
        (lambda self, x, h: exp(-(h**2)), r"\exp(-h \odot h)"),
        (lambda self, x, h: where(h > 0, h, -h), r"\begin{cases} h & 0 < h \\ -h & \text{else} \end{cases}"),
        (lambda self, x, h: where(h <= 1, h, 1), r"\begin{cases} h & h \le 1 \\ 1 & \text{else} \end{cases}"),
        (lambda self, x, h: self.linear("a", h + h, bias=False), r"U_{a} (h + h)"),
        (lambda self, x, h: self.linear("a", -h, bias=False), r"U_{a} (-h)"),
        (lambda self, x, h: self.linear("a", tanh(h)) * h, r"(U_{a} \tanh(h) + b_{a}) \odot h"),
        (lambda self, x, h: h - self.linear("a", x), r"h - (W_{a} x_t + b_{a})"),
        (lambda self, x, h: 1e-5 * h, r"10^{-5} \, h"),
        (lambda self, x, h: 2.5e-7 * h, r"2.5 \cdot 10^{-7} \, h"),
        (lambda self, x, h: 1500000 * h, r"1.5 \cdot 10^{6} \, h"),
        (lambda self, x, h: self.vector("p_i") * h + self.vector("scale"), r"p_{i} \odot h + \mathrm{scale}"),
    ],
)
def test_parentheses(step: Callable[..., Any], text: str) -> None:
    """h stands for h_{t−1}."""
    assert right(step).replace("h_{t-1}", "h") == text


def test_long_and_marked_names() -> None:
    def step(self: Cell, x: Any, h: Any) -> Any:
        gate = tanh(self.linear("gate", x, h))
        n_new = gate * h
        return n_new + gate

    assert lines(cell_of(step)) == [
        r"\mathrm{gate}_t &= \tanh\left(W_{gate} x_t + U_{gate} h_{t-1} + b_{gate}\right)",
        r"n^{(new)}_t &= \mathrm{gate}_t \odot h_{t-1}",
        r"h_t &= n^{(new)}_t + \mathrm{gate}_t",
    ]


def letter(name: str) -> str:
    """A value's name in print, without its time."""
    head, _, mark = name.partition("_")
    return (head if len(head) == 1 else rf"\mathrm{{{head}}}") + (f"^{{({mark})}}" if mark else "")


def subscripted(name: str) -> str:
    """A parameter's name in print: W_{r}, U^{(1)}_{h}, v, \\mathrm{gain}_{c}."""
    head, _, mark = name.partition("_")
    numbered = head[0] == "U" and head[1:].isdigit()
    text = f"U^{{({head[1:]})}}" if numbered else head if len(head) == 1 else rf"\mathrm{{{head}}}"
    return text + (f"_{{{mark}}}" if mark else "")


@pytest.mark.parametrize("bias", [True, False])
@every_cell
def test_what_is_printed_computes_what_runs(cell: Cell, bias: bool) -> None:
    equations, p = cell.equations(bias), random_parameters(cell, bias)
    if any("*" in str(node.width) for node in equations.nodes):
        pytest.skip("print does not say which units are a head or a row")
    x, states = random_batch(cell, steps=1, rows=1)
    values: dict[str, Array] = {subscripted(name): value for name, value in p.items()}
    values["x_t"] = x[0, 0]
    values |= {f"{letter(name)}_{{t-1}}": state[0] for name, state in zip(equations.states, states, strict=True)}
    assert len(values) == len(p) + 1 + len(states)  # no two names look alike

    text = cell.latex(bias=bias)
    found = evaluate(text, values)
    trace = run(cell, p, x, states)[2] if p else {}
    assert list(found) == [f"{letter(name)}_t" for name in trace]
    for name, value in trace.items():
        np.testing.assert_allclose(found[f"{letter(name)}_t"], value[0, 0], rtol=1e-12, atol=1e-12)
    assert all(subscripted(name) in text for name in p)
    assert text.count("{") == text.count("}")
    assert text.count(r"\left") == text.count(r"\right")
