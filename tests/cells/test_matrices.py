"""Widths that are products, sums over units, matrices, tied maps and complex pairs, against NumPy by hand."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
from tests.variants import cell_of

from unspool.cells import (
    Cell,
    Complex,
    Symbol,
    cumsum,
    matvec,
    max_units,
    mean_units,
    normalise,
    outer,
    polar,
    scale_columns,
    sigmoid,
    softmax,
    sum_units,
    tanh,
    vecmat,
)
from unspool.cells.derived import without_biases
from unspool.cells.document import dump, load
from unspool.engine import run
from unspool.errors import ArgumentError, CellError

HEADS: Mapping[str, int | str] = {"heads": 2, "head": "hidden/heads"}


class Delta(Cell):
    """The delta rule: each head's matrix forgets what it had under a key, and takes the new value."""

    @property
    def sizes(self) -> Mapping[str, int | str]:
        return HEADS

    @property
    def state_widths(self) -> Mapping[str, str]:
        return {"S": "heads*head*head"}

    def step(self, x: Symbol, h: Symbol, S: Symbol) -> tuple[Symbol, Symbol]:
        q, k, v = (self.linear(name, x, width="heads*head", bias=False) for name in "qkv")
        beta = sigmoid(self.linear("beta", x, h, width="heads"))
        S = S + outer(k, beta * (v - vecmat(k, S)))
        return self.reshape(vecmat(q, S), "hidden"), S


def numbers(cell: Cell, input_size: int, hidden_size: int, steps: int = 4, rows: int = 3) -> tuple[Any, Any]:
    generator = np.random.default_rng(1)
    shapes = cell.equations().shapes(input_size, hidden_size)
    parameters = {name: 0.4 * generator.normal(size=shape) for name, shape in shapes.items()}
    return parameters, generator.normal(size=(steps, rows, input_size))


def test_the_delta_rule() -> None:
    p, x = numbers(Delta(), 3, 6)
    output, (_, last), _ = run(Delta(), p, x)
    for row in range(3):
        S, h = np.zeros((2, 3, 3)), np.zeros(6)
        for t in range(4):
            q, k, v = ((p[f"W_{name}"] @ x[t, row]).reshape(2, 3) for name in "qkv")
            beta = 1 / (1 + np.exp(-(p["W_beta"] @ x[t, row] + p["U_beta"] @ h + p["b_beta"])))
            for head in range(2):
                S[head] += beta[head] * np.outer(k[head], v[head] - S[head].T @ k[head])
            h = np.concatenate([S[head].T @ q[head] for head in range(2)])
            np.testing.assert_allclose(output[t, row], h, atol=1e-13)
        np.testing.assert_allclose(last[row], S.ravel(), atol=1e-13)


def test_each_operation_by_hand() -> None:
    def step(self: Cell, x: Symbol, h: Symbol) -> Symbol:
        a, b = self.linear("a", x, width="two*key", bias=False), self.linear("b", x, width="two*value", bias=False)
        M = outer(a, b)
        self.name("M", M)
        self.name("rows", a * M)
        self.name("columns", scale_columns(M, b))
        self.name("right", matvec(M, b))
        self.name("left", vecmat(a, M))
        self.name("total", sum_units(a))
        self.name("mean", mean_units(b))
        self.name("heads", sum_units(a, keep="two"))
        self.name("means", mean_units(M, keep="two*key"))
        self.name("largest", max_units(a))
        self.name("sums", cumsum(b))
        self.name("soft", softmax(a))
        return h + self.linear("h", x)

    cell = cell_of(step, sizes={"two": 2, "key": 3, "value": 4})
    p, x = numbers(cell, 5, 6, steps=1)
    _, _, found = run(cell, p, x)
    a, b = (x[0] @ p["W_a"].T).reshape(3, 2, 3), (x[0] @ p["W_b"].T).reshape(3, 2, 4)
    M = np.einsum("bpk,bpv->bpkv", a, b)
    e = np.exp(a.reshape(3, -1))
    expected = {
        "M": M,
        "rows": a[..., None] * M,
        "columns": M * b[:, :, None],
        "right": np.einsum("bpkv,bpv->bpk", M, b),
        "left": np.einsum("bpkv,bpk->bpv", M, a),
        "total": a.sum((1, 2)),
        "mean": b.mean((1, 2)),
        "heads": a.sum(2),
        "means": M.mean(3),
        "largest": a.max((1, 2)),
        "sums": b.reshape(3, -1).cumsum(1),
        "soft": e / e.sum(1, keepdims=True),
    }
    for name, value in expected.items():
        np.testing.assert_allclose(found[name][0], value.reshape(3, -1), atol=1e-13, err_msg=name)


def test_a_tied_map_has_one_set_of_parameters() -> None:
    def step(self: Cell, x: Symbol, h: Symbol) -> Symbol:
        for _ in range(3):
            h = h + 0.3 * (tanh(self.linear("v", x, h, tied=True)) - h)
        return h

    cell = cell_of(step)
    assert list(cell.equations().parameters) == ["W_v", "U_v", "b_v"]
    p, x = numbers(cell, 3, 4, steps=1)
    h = np.zeros((3, 4))
    for _ in range(3):
        h = h + 0.3 * (np.tanh(x[0] @ p["W_v"].T + h @ p["U_v"].T + p["b_v"]) - h)
    np.testing.assert_allclose(run(cell, p, x)[0][0], h, atol=1e-14)


def test_blocks_are_a_block_diagonal_matrix() -> None:
    def step(self: Cell, x: Symbol, h: Symbol) -> Symbol:
        v = self.reshape(self.linear("x", x) + h, "heads*head")
        return self.reshape(tanh(self.block_linear("d", v)), "hidden")

    cell = cell_of(step, sizes=HEADS)
    p, x = numbers(cell, 3, 6, steps=1)
    whole = np.zeros((6, 6))
    whole[:3, :3], whole[3:, 3:] = p["D_d"]
    v = x[0] @ p["W_x"].T + p["b_x"]
    np.testing.assert_allclose(run(cell, p, x)[0][0], np.tanh(v @ whole.T + p["b_d"]), atol=1e-14)
    assert dump(without_biases(cell.equations())) == dump(cell.equations(bias=False))


def test_complex_pairs_are_complex_numbers() -> None:
    def step(self: Cell, x: Symbol, h: Symbol, s: Symbol) -> tuple[Any, Any]:
        turn = polar(0.9, self.vector("angle", 0.5))
        z = turn * Complex(h, s).conjugate + Complex(self.linear("h", x), self.linear("s", x)) * 0.5
        z = z - Complex(0.1, 0.2)
        return z.real, z.imaginary

    cell = cell_of(step)
    p, x = numbers(cell, 3, 4)
    z = np.zeros((3, 4), complex)
    for one in x:
        read = (one @ p["W_h"].T + p["b_h"]) + 1j * (one @ p["W_s"].T + p["b_s"])
        z = 0.9 * np.exp(1j * p["angle"]) * z.conj() + 0.5 * read - (0.1 + 0.2j)
    _, (h, s), _ = run(cell, p, x)
    np.testing.assert_allclose(h + 1j * s, z, atol=1e-13)


def test_matrices_are_printed_as_a_textbook_does() -> None:
    printed = Delta().latex()
    assert r"S_t &= S_{t-1} + k_t \otimes \left(\beta" not in printed  # names are printed as they are written
    assert r"k_t \otimes \left(\mathrm{beta}_t \odot \left(v_t - k_t^\top \cdot S_{t-1}\right)\right)" in printed
    assert r"h_t &= q_t^\top \cdot S_t" in printed


def test_documents_keep_matrices_and_refuse_wrong_ones() -> None:
    text = dump(Delta().equations())
    assert dump(load(text)) == text
    for old, new in (
        ('"sizes":{"heads":2,"head":"hidden/heads"}', '"sizes":{"heads":2,"head":"hidden/none"}'),
        ('"sizes":{"heads":2,"head":"hidden/heads"}', '"sizes":{"heads":2,"head":"hidden/head"}'),
        ('"width":"heads*head*head"', '"width":"heads*head*tail"'),
        ('"operation":"outer"', '"operation":"matvec"'),
        ('"operation":"view"', '"operation":"expand"'),
    ):
        assert old in text
        with pytest.raises(CellError):
            load(text.replace(old, new))


WRONG: dict[str, tuple[Callable[..., Any], str]] = {
    "outer of other heads": (
        lambda self, x, h: outer(self.linear("a", x, width="two*key"), h),
        "the widths do not fit",
    ),
    "a matrix of one size": (lambda self, x, h: matvec(h, h), "the widths do not fit"),
    "vecmat": (lambda self, x, h: vecmat(self.linear("a", x, width="key"), outer(h, h)), "the widths do not fit"),
    "a number": (lambda self, x, h: outer(h, 2.0), "takes values of the equations"),  # type: ignore[arg-type]
    "a sum that keeps another width": (lambda self, x, h: sum_units(h, keep="key"), "cannot keep 'key'"),
    "units of one number": (lambda self, x, h: normalise(sum_units(h)), "one number has no units"),
    "an unknown factor": (lambda self, x, h: self.linear("a", x, width="two*none"), "has the width 'two\\*none'"),
    "blocks of one size": (lambda self, x, h: self.block_linear("a", h), "Give it one such as 'heads\\*head'"),
    "a tied map of other widths": (
        lambda self, x, h: self.linear("a", h, tied=True) + self.linear("a", x, tied=True),
        "is tied, but named with operands",
    ),
    "rows before columns": (
        lambda self, x, h: self.linear("a", x, width="key") * outer(h, self.linear("b", x, width="key")),
        "the widths differ",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_widths_are_refused(name: str) -> None:
    step, said = WRONG[name]
    with pytest.raises(CellError, match=said):
        cell_of(step, sizes={"two": 2, "key": 3}).equations()


def test_sizes_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ArgumentError, match="cannot be divided by `heads`"):
        Delta().equations().shapes(3, 5)
    cell = cell_of(lambda self, x, h: self.reshape(self.reshape(h, "key*key"), "hidden"), sizes={"key": 3})
    with pytest.raises(ArgumentError, match="Change the sizes"):
        cell.equations().shapes(3, 8)
    assert cell.equations().shapes(3, 9) == {}
