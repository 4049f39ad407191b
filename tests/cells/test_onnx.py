"""The gated cells against ONNX Runtime's own operators, ragged and from given states."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnxruntime
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from tests.variants import LENGTHS, STEPS, Array, random_batch, random_parameters

from unspool.cells import GRU, LSTM, Elman, ResetAfterGRU
from unspool.engine import run

X, H, ROWS = 3, 4, len(LENGTHS)


def run_operator(
    operator: str, W: list[Array], U: list[Array], b: list[Array], x: Array, states: tuple[Array, ...], **options: Any
) -> list[Array]:
    """One ONNX recurrent operator with these blocks; its output (T, B, H) and final states."""
    inputs: dict[str, NDArray[Any]] = {
        "X": x,
        "W": np.concatenate(W)[None],
        "R": np.concatenate(U)[None],
        "B": np.concatenate(b)[None],
        "lengths": np.array(LENGTHS, np.int32),
        **{f"start{k}": state[None] for k, state in enumerate(states)},
    }
    tensors = {name: value if name == "lengths" else value.astype(np.float32) for name, value in inputs.items()}
    results = ["Y", *(f"end{k}" for k in range(len(states)))]
    graph = helper.make_graph(
        [helper.make_node(operator, list(tensors), results, hidden_size=H, **options)],
        "one",
        [],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in results],
        [numpy_helper.from_array(value, name) for name, value in tensors.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 14)], ir_version=8)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    Y, *ends = session.run(None, {})
    return [Y[:, 0], *(end[0] for end in ends)]


def assert_equal(cell: Any, p: dict[str, Array], x: Array, states: tuple[Array, ...], theirs: list[Array]) -> None:
    output, final, _ = run(cell, p, x, states, lengths=LENGTHS)
    last = [row for row, length in enumerate(LENGTHS) if length]  # ONNX Runtime clears the states of empty rows
    np.testing.assert_allclose(output, theirs[0], rtol=0, atol=1e-6)
    for mine, other in zip(final, theirs[1:], strict=True):
        np.testing.assert_allclose(mine[last], other[last], rtol=0, atol=1e-6)


def test_elman() -> None:
    p, (x, states) = random_parameters(Elman()), random_batch(Elman(), STEPS, ROWS)
    theirs = run_operator("RNN", [p["W_h"]], [p["U_h"]], [p["b_h"], np.zeros(H)], x, states)
    assert_equal(Elman(), p, x, states, theirs)


def test_lstm() -> None:
    p, (x, states) = random_parameters(LSTM()), random_batch(LSTM(), STEPS, ROWS)
    W, U, b = ([p[f"{letter}_{gate}"] for gate in "iofg"] for letter in "WUb")
    assert_equal(LSTM(), p, x, states, run_operator("LSTM", W, U, [*b, np.zeros(4 * H)], x, states))


def test_gru_is_linear_before_reset_0_with_the_opposite_z() -> None:
    p, (x, states) = random_parameters(GRU()), random_batch(GRU(), STEPS, ROWS)
    W, U, b = ([-p[f"{letter}_z"], p[f"{letter}_r"], p[f"{letter}_n"]] for letter in "WUb")
    theirs = run_operator("GRU", W, U, [*b, np.zeros(3 * H)], x, states, linear_before_reset=0)
    assert_equal(GRU(), p, x, states, theirs)


def test_reset_after_gru_is_linear_before_reset_1() -> None:
    p, (x, states) = random_parameters(ResetAfterGRU()), random_batch(ResetAfterGRU(), STEPS, ROWS)
    W, b = ([p[f"{letter}_{gate}"] for gate in "zrn"] for letter in "Wb")
    U = [p["U_z"], p["U_r"], p["U_hn"]]
    theirs = run_operator("GRU", W, U, [*b, np.zeros(2 * H), p["b_hn"]], x, states, linear_before_reset=1)
    assert_equal(ResetAfterGRU(), p, x, states, theirs)


def test_the_two_grus_differ() -> None:
    """So that neither of the tests above can pass with the other's equations."""
    p, (x, states) = random_parameters(GRU()), random_batch(GRU(), STEPS, ROWS)
    other = {**{name: value for name, value in p.items() if name != "U_n"}, "U_hn": p["U_n"], "b_hn": np.zeros(H)}
    other |= {name: -p[name] for name in ("W_z", "U_z", "b_z")}
    difference = np.abs(run(GRU(), p, x, states)[0] - run(ResetAfterGRU(), other, x, states)[0])
    assert difference.max() > 1e-2
    assert run(GRU(), p | {"U_n": np.zeros((H, H))}, x, states)[0] == pytest.approx(
        run(ResetAfterGRU(), other | {"U_hn": np.zeros((H, H))}, x, states)[0], abs=1e-14
    )
