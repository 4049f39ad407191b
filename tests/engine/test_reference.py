"""The NumPy reference against the by-hand oracles, against torch, and against rows that run alone."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.oracles import elman, gru_after, gru_before, lstm
from tests.oracles.rows import Forward
from tests.variants import (
    LENGTHS,
    VARIANTS,
    UnitByUnit,
    as_state,
    as_states,
    cell_of,
    each_cell,
    random_batch,
    random_layer,
    random_parameters,
)

from unspool.cells import GRU, LSTM, Cell, Elman, OpenLSTM, ResetAfterGRU, normalise
from unspool.engine import run
from unspool.errors import ArgumentError, ShapeError, UnknownNameError

pytestmark = pytest.mark.usefixtures("engine")

BY_HAND: list[tuple[Cell, Forward]] = [
    (Elman("tanh"), elman.forward),
    (Elman("relu"), partial(elman.forward, phi="relu")),
    (Elman("identity"), partial(elman.forward, phi="identity")),
    (LSTM(), lstm.forward),
    (OpenLSTM(), lstm.forward),
    (GRU(), gru_before.forward),
    (ResetAfterGRU(), gru_after.forward),
]
either_way = pytest.mark.parametrize("reverse", [False, True], ids=["forward", "reverse"])
with_and_without_bias = pytest.mark.parametrize("bias", [True, False], ids=["bias", "no-bias"])


@with_and_without_bias
@pytest.mark.parametrize(("cell", "forward"), BY_HAND, ids=[repr(cell) for cell, _ in BY_HAND])
def test_equals_the_oracle(cell: Cell, forward: Forward, bias: bool) -> None:
    p, (x, states) = random_parameters(cell, bias), random_batch(cell)
    output, final, trace = run(cell, p, x, states)
    by_hand, by_hand_final, tape = forward(p, x, states)
    np.testing.assert_allclose(output, by_hand, rtol=0, atol=1e-12)
    for mine, hand in zip(final, by_hand_final, strict=True):
        np.testing.assert_allclose(mine, hand, rtol=0, atol=1e-12)
    for gate in set(trace) & set(tape[0]) - set(cell.states):
        np.testing.assert_allclose(trace[gate], np.stack([then[gate] for then in tape]), rtol=0, atol=1e-12)


@either_way
@with_and_without_bias
@each_cell
def test_equals_torch(cell: Cell, bias: bool, reverse: bool) -> None:
    p, (x, states) = random_parameters(cell, bias), random_batch(cell)
    layer = random_layer(cell, bias, reverse=reverse)
    start = as_state(tuple(map(torch.from_numpy, states)))
    for lengths in (None, LENGTHS):
        output, final, trace = run(cell, p, x, states, lengths=lengths, reverse=reverse)
        with torch.no_grad():
            theirs, their_final, their_trace = layer(torch.from_numpy(x), start, lengths=lengths, trace=True)
        np.testing.assert_allclose(output, theirs, rtol=1e-12, atol=1e-12)
        for mine, other in zip(final, as_states(their_final), strict=True):
            np.testing.assert_allclose(mine, other, rtol=1e-12, atol=1e-12)
        assert list(trace) == list(their_trace)
        for name, value in trace.items():
            np.testing.assert_allclose(value, their_trace[name], rtol=1e-12, atol=1e-12, err_msg=name)


@either_way
@each_cell
def test_a_ragged_batch_is_its_rows_run_alone(cell: Cell, reverse: bool) -> None:
    p, (x, states) = random_parameters(cell), random_batch(cell)
    output, final, trace = run(cell, p, x, states, lengths=LENGTHS, reverse=reverse)
    for row, length in enumerate(LENGTHS):
        own = x[:length, row : row + 1]
        start = [state[row : row + 1] for state in states]
        alone, alone_final, alone_trace = run(cell, p, own[::-1] if reverse else own, start)
        for mine, other in ((output, alone), *((trace[name], alone_trace[name]) for name in trace)):
            np.testing.assert_allclose(mine[:length, row], other[:: -1 if reverse else 1, 0], rtol=1e-13, atol=1e-13)
            assert (mine[length:, row] == 0).all()
        for mine, other in zip(final, alone_final, strict=True):
            np.testing.assert_allclose(mine[row], other[0], rtol=1e-13, atol=1e-13)


@each_cell
def test_from_zeros_when_no_states_are_given_and_onwards_from_those_that_are(cell: Cell) -> None:
    p, (x, states) = random_parameters(cell), random_batch(cell)
    whole, final, _ = run(cell, p, x)
    first, middle, _ = run(cell, p, x[:2], [np.zeros_like(state) for state in states])
    second, last, _ = run(cell, p, x[2:], middle)
    np.testing.assert_array_equal(whole, np.concatenate([first, second]))
    for mine, other in zip(final, last, strict=True):
        np.testing.assert_array_equal(mine, other)


def test_what_is_given_stays_as_it_was() -> None:
    p, (x, states) = random_parameters(LSTM()), random_batch(LSTM())
    before = [value.copy() for value in (x, *states, *p.values())]
    run(LSTM(), p, x, states, lengths=LENGTHS)
    for value, old in zip((x, *states, *p.values()), before, strict=True):
        np.testing.assert_array_equal(value, old)


def test_no_steps_and_no_rows() -> None:
    p, (x, states) = random_parameters(LSTM()), random_batch(LSTM())
    output, final, trace = run(LSTM(), p, x[:0], states)
    assert output.shape == (0, 5, 4)
    assert {value.shape for value in trace.values()} == {(0, 5, 4)}
    for mine, start in zip(final, states, strict=True):
        np.testing.assert_array_equal(mine, start)
    assert run(LSTM(), p, x[:, :0])[0].shape == (5, 0, 4)
    assert run(LSTM(), p, x[:, :0], lengths=[])[0].shape == (5, 0, 4)


def test_names_and_lists_will_do() -> None:
    p, (x, _) = random_parameters(Elman()), random_batch(Elman())
    lists = {name: value.tolist() for name, value in p.items()}
    np.testing.assert_array_equal(run("elman", lists, x.tolist())[0], run(Elman(), p, x)[0])


def test_saturated_gates_neither_warn_nor_overflow() -> None:
    p, (x, _) = random_parameters(LSTM()), random_batch(LSTM())
    output = run(LSTM(), {name: 1e5 * value for name, value in p.items()}, x)[0]
    assert np.isfinite(output).all()


@pytest.mark.parametrize("epsilon", [1e-5, 0.3])
def test_normalise(epsilon: float) -> None:
    cell = cell_of(lambda self, x, h: normalise(self.linear("a", x), epsilon))
    p, (x, _) = random_parameters(cell), random_batch(cell)
    a = x @ p["W_a"].T + p["b_a"]
    expected = (a - a.mean(-1, keepdims=True)) / np.sqrt(a.var(-1, keepdims=True) + epsilon)
    np.testing.assert_allclose(run(cell, p, x)[0], expected, rtol=1e-13)
    with torch.no_grad():
        np.testing.assert_allclose(random_layer(cell)(torch.from_numpy(x))[0], expected, rtol=1e-13)


@st.composite
def ragged(draw: st.DrawFn) -> tuple[Cell, int, list[int], bool, bool]:
    """A cell, a number of steps, lengths, and whether to run in reverse and with biases."""
    steps = draw(st.integers(1, 6))
    lengths = draw(st.lists(st.integers(0, steps), max_size=6))
    return draw(st.sampled_from(list(VARIANTS.values()))), steps, lengths, draw(st.booleans()), draw(st.booleans())


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(ragged())
def test_equals_torch_whatever_the_lengths(drawn: tuple[Cell, int, list[int], bool, bool]) -> None:
    cell, steps, lengths, reverse, bias = drawn
    x, states = random_batch(cell, steps, len(lengths))
    output, final, _ = run(cell, random_parameters(cell, bias), x, states, lengths=lengths, reverse=reverse)
    start = as_state(tuple(map(torch.from_numpy, states)))
    with torch.no_grad():
        layer = random_layer(cell, bias, reverse=reverse)
        theirs, their_final = layer(torch.from_numpy(x), start, lengths=lengths)
    np.testing.assert_allclose(output, theirs, rtol=1e-12, atol=1e-12)
    for mine, other in zip(final, as_states(their_final), strict=True):
        np.testing.assert_allclose(mine, other, rtol=1e-12, atol=1e-12)


P, ELMAN, (X, STATES) = random_parameters(LSTM()), random_parameters(Elman()), random_batch(LSTM())
NARROW = X[:, :, :1]
BAD: dict[str, tuple[Callable[[], Any], type[ArgumentError], str]] = {
    "unknown cell": (lambda: run("lstn", P, X), UnknownNameError, "Did you mean 'lstm'"),
    "rank of x": (lambda: run("lstm", P, X[0]), ShapeError, r"`x` \(=\(5, 3\)\) .*Give \(time, batch, input_size\)"),
    "missing parameter": (
        lambda: run("lstm", {name: value for name, value in P.items() if name != "U_g"}, X),
        ArgumentError,
        "`parameters` .*not those of LSTM. Give W_i, U_i, b_i, W_f",
    ),
    "surplus parameter": (lambda: run("lstm", P | {"W_q": X}, X), ArgumentError, "`parameters` .*not those of LSTM"),
    "no parameters": (lambda: run("lstm", {}, X), ArgumentError, "`parameters`"),
    "one bias": (
        lambda: run("lstm", {name: v for name, v in P.items() if not name.startswith("b_") or name == "b_i"}, X),
        ArgumentError,
        "`parameters`",
    ),
    "width of x": (lambda: run("lstm", P, X[:, :, :2]), ShapeError, r"`W_i` \(=\(4, 3\)\) is not of shape \(4, 2\)"),
    "shape of a parameter": (lambda: run("lstm", P | {"b_o": X[0, 0]}, X), ShapeError, r"`b_o` .*shape \(4,\)"),
    "a number as parameter": (lambda: run("lstm", P | {"W_i": 1.0}, X), ShapeError, r"`W_i` \(=\(\)\)"),
    "unit by unit": (
        lambda: run(UnitByUnit(), random_parameters(UnitByUnit()), NARROW),
        ShapeError,
        "`x`|`W_f`",
    ),
    "unit by unit, without a matrix": (
        lambda: run(
            cell_of(lambda self, x, h: self.vector("v") * x, input_width="hidden"), {"v": np.ones(4)}, X[..., :1]
        ),
        ShapeError,
        "`x`",
    ),
    "number of states": (lambda: run("lstm", P, X, STATES[:1]), ShapeError, "`states`.*Give one per state"),
    "shape of a state": (lambda: run("lstm", P, X, (STATES[0], STATES[1][:3])), ShapeError, "`states`"),
    "one array as states": (lambda: run("elman", ELMAN, X, list(STATES[0])), ShapeError, "`states`"),
    "too long": (lambda: run("lstm", P, X, lengths=(1, 2, 3, 4, 6)), ArgumentError, "`lengths`.*5 numbers from 0 to 5"),
    "negative length": (lambda: run("lstm", P, X, lengths=(1, 2, 3, 4, -1)), ArgumentError, "`lengths`"),
    "too few lengths": (lambda: run("lstm", P, X, lengths=(1, 2)), ArgumentError, r"`lengths` \(=\(1, 2\)\)"),
    "fractional lengths": (
        lambda: run("lstm", P, X, lengths=(1, 2, 3, 4, 1.5)),  # type: ignore[arg-type]
        ArgumentError,
        "`lengths`",
    ),
    "true or false as lengths": (lambda: run("lstm", P, X, lengths=(True,) * 5), ArgumentError, "`lengths`"),
    "text as lengths": (lambda: run("lstm", P, X, lengths="abcde"), ArgumentError, "`lengths`"),  # type: ignore[arg-type]
}


@pytest.mark.parametrize(("call", "kind", "message"), BAD.values(), ids=BAD)
def test_bad_input(call: Callable[[], Any], kind: type[ArgumentError], message: str) -> None:
    with pytest.raises(kind, match=message):
        call()
