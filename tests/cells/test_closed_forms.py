"""What the cells' equations promise: parameter counts, Jacobians, path counts, limits and special cases."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import solve_ivp
from tests.oracles import lstm
from tests.variants import Array, random_batch, random_layer, random_parameters

from unspool.cells import (
    GRU,
    LSTM,
    Cell,
    DeepTransition,
    Elman,
    Jordan,
    Leaky,
    Linear,
    OpenLSTM,
    ResetAfterGRU,
    Residual,
    Skip,
)
from unspool.engine import run
from unspool.nn.recurrent import Recurrent

size = st.integers(1, 2000)


@settings(deadline=None)
@given(size, size)
def test_one_affine_block_is_h_times_i_plus_h_plus_1(input_size: int, hidden_size: int) -> None:
    block = hidden_size * (input_size + hidden_size + 1)
    blocks = {Elman(): 1, Residual(): 1, Leaky(): 1, GRU(): 3, OpenLSTM(): 3, LSTM(): 4}
    for cell, count in blocks.items():
        assert cell.count_parameters(input_size, hidden_size) == count * block
        assert cell.count_parameters(input_size, hidden_size, bias=False) == count * (block - hidden_size)
    assert 3 * LSTM().count_parameters(input_size, hidden_size) == 4 * GRU().count_parameters(input_size, hidden_size)
    assert ResetAfterGRU().count_parameters(input_size, hidden_size) == 3 * block + hidden_size  # b_hn
    assert Linear().count_parameters(input_size, hidden_size) == block - hidden_size


@settings(deadline=None)
@given(size, size, st.integers(1, 9))
def test_counts_with_options(input_size: int, hidden_size: int, option: int) -> None:
    def count(cell: Cell) -> int:
        return cell.count_parameters(input_size, hidden_size)

    i, h, k = input_size, hidden_size, option
    assert count(DeepTransition(k)) == h * (i + h + 1) + (k - 1) * h * (h + 1)
    assert count(Skip(k + 1)) == h * (i + 2 * h + 1)
    assert count(Jordan(output_size=k)) == h * (i + k + 1) + k * (h + 1)
    assert count(LSTM(projection=k)) == 4 * h * (i + k + 1) + k * h


def test_jordan_by_hand() -> None:
    cell = Jordan(output_size=2, activation="relu", output_activation="tanh")
    p, (x, (y,)) = random_parameters(cell), random_batch(cell)
    output, final, trace = run(cell, p, x, (y,))
    for t in range(len(x)):
        h = np.maximum(x[t] @ p["W_h"].T + y @ p["U_h"].T + p["b_h"], 0)
        y = np.tanh(h @ p["U_y"].T + p["b_y"])
        np.testing.assert_allclose(trace["h"][t], h, rtol=0, atol=1e-13)
        np.testing.assert_allclose(output[t], y, rtol=0, atol=1e-13)
    np.testing.assert_array_equal(final[0], output[-1])


def test_jordan_feeds_back_its_output_alone() -> None:
    """With V = 0 the output is the constant ψ(c), so nothing of the past is left in it."""
    cell = Jordan()
    p, (x, states) = random_parameters(cell), random_batch(cell)
    p["U_y"] *= 0
    output, _, trace = run(cell, p, x, states)
    np.testing.assert_allclose(output, np.broadcast_to(1 / (1 + np.exp(-p["b_y"])), output.shape), rtol=1e-14)
    other = run(cell, p, np.concatenate([np.zeros_like(x[:2]), x[2:]]), states)[2]
    np.testing.assert_array_equal(other["h"][2:], trace["h"][2:])


@pytest.mark.parametrize("activation", ["tanh", "relu", "identity"])
def test_deep_transition_of_depth_1_is_elman(activation: str) -> None:
    cell = Elman(activation)
    p, (x, states) = random_parameters(cell), random_batch(cell)
    deep, deep_final, _ = run(DeepTransition(1, activation), p, x, states)
    output, final, _ = run(cell, p, x, states)
    np.testing.assert_array_equal(deep, output)
    np.testing.assert_array_equal(deep_final[0], final[0])


def test_deep_transition_is_a_perceptron_of_state_and_input() -> None:
    cell = DeepTransition(3)
    p, (x, (h,)) = random_parameters(cell), random_batch(cell)
    trace = run(cell, p, x, (h,))[2]
    for t in range(len(x)):
        v1 = np.tanh(x[t] @ p["W_h"].T + h @ p["U_h"].T + p["b_h"])
        v2 = np.tanh(v1 @ p["U_h2"].T + p["b_h2"])
        h = np.tanh(v2 @ p["U_h3"].T + p["b_h3"])
        for name, value in (("v1", v1), ("v2", v2), ("h", h)):
            np.testing.assert_allclose(trace[name][t], value, rtol=0, atol=1e-13)


def test_residual_jacobian_is_identity_plus_that_of_f() -> None:
    layer = random_layer(Residual())
    batch, (states,) = random_batch(Residual())
    x, h = torch.from_numpy(batch[:, 0]), torch.from_numpy(states[0])
    found = torch.func.jacrev(lambda h: layer(x, h)[1])(h)
    p = random_parameters(Residual())
    expected, now = np.eye(4), h.numpy()
    for x_t in x.numpy():
        f = np.tanh(p["W_f"] @ x_t + p["U_f"] @ now + p["b_f"])
        expected = (np.eye(4) + np.diag(1 - f**2) @ p["U_f"]) @ expected
        now = now + f
    np.testing.assert_allclose(found.detach().numpy(), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("span", [2, 3, 5])
def test_skip_counts_the_paths_of_the_unfolded_graph(span: int) -> None:
    """With unit weights an impulse reaches step t along every path of edges 1 and `span` long."""
    steps = 30
    paths = [1]
    for t in range(1, steps):
        paths.append(paths[t - 1] + (paths[t - span] if t >= span else 0))
    if span == 2:
        golden = (1 + math.sqrt(5)) / 2
        assert paths == [round(golden ** (t + 1) / math.sqrt(5)) for t in range(steps)]  # Fibonacci's
    cell = Skip(span, activation="identity")
    unit = np.ones((1, 1))
    impulse = np.zeros((steps, 1, 1))
    impulse[0] = 1
    output, final, _ = run(cell, {"W_h": unit, "U1_h": unit, "U2_h": unit}, impulse)
    assert output[:, 0, 0].tolist() == paths
    assert [state.item() for state in final] == paths[: -span - 1 : -1]


@pytest.mark.parametrize("span", [2, 3])
def test_skip_gradient_runs_along_every_path(span: int) -> None:
    layer = Recurrent(Skip(span, activation="identity"), 1, 1, bias=False, dtype=torch.float64)
    for parameter in layer.parameters():
        torch.nn.init.ones_(parameter)
    x = torch.zeros(20, 1, dtype=torch.float64, requires_grad=True)
    (gradient,) = torch.autograd.grad(layer(x)[0][-1].sum(), x)
    paths = [1.0]
    for t in range(1, 20):
        paths.append(paths[t - 1] + (paths[t - span] if t >= span else 0))
    assert gradient[:, 0].tolist() == paths[::-1]


def test_leaky_meets_its_differential_equation_at_first_order() -> None:
    alpha, end = 1.3, 2.0
    p, (x, (h,)) = random_parameters(Leaky()), random_batch(Leaky(), steps=1, rows=1)

    def slope(_: float, h: Array) -> Any:
        return -alpha * h + np.tanh(p["W_h"] @ x[0, 0] + p["U_h"] @ h + p["b_h"])

    exact = solve_ivp(slope, (0, end), h[0], method="DOP853", rtol=1e-12, atol=1e-12).y[:, -1]
    errors = []
    for steps in (100, 200, 400, 800):
        cell = Leaky(dt=end / steps, alpha=alpha)
        final = run(cell, p, np.repeat(x, steps, axis=0), (h,))[1][0][0]
        errors.append(np.abs(final - exact).max())
    assert errors[-1] < 2e-3
    ratios = [coarse / fine for coarse, fine in itertools.pairwise(errors)]
    assert ratios == pytest.approx([2, 2, 2], abs=0.05)
    assert abs(ratios[-1] - 2) < abs(ratios[0] - 2)


def test_open_lstm_is_the_lstm_with_an_output_gate_of_1() -> None:
    p, (x, states) = random_parameters(LSTM()), random_batch(LSTM())
    without = {name: value for name, value in p.items() if not name.endswith("_o")}
    output, final, trace = run(OpenLSTM(), without, x, states)
    by_hand, by_hand_final, _ = lstm.forward(without, x, states)
    forced, forced_final, forced_trace = run(LSTM(), p | {"b_o": np.full(4, 1000.0)}, x, states)
    assert (forced_trace["o"] == 1).all()
    np.testing.assert_allclose(output, by_hand, rtol=0, atol=1e-13)
    np.testing.assert_array_equal(output, forced)
    for mine, hand, held in zip(final, by_hand_final, forced_final, strict=True):
        np.testing.assert_allclose(mine, hand, rtol=0, atol=1e-13)
        np.testing.assert_array_equal(mine, held)
    assert sorted(trace) == ["c", "f", "g", "h", "i"]


def test_projected_lstm_shows_a_linear_map_of_the_plain_ones_state() -> None:
    cell = LSTM(projection=2)
    p, (x, (h, c)) = random_parameters(cell), random_batch(cell)
    output, (_, final_c), trace = run(cell, p, x, (h, c))
    for t in range(len(x)):
        a = {gate: x[t] @ p[f"W_{gate}"].T + h @ p[f"U_{gate}"].T + p[f"b_{gate}"] for gate in "ifgo"}
        c = lstm.sigmoid(a["f"]) * c + lstm.sigmoid(a["i"]) * np.tanh(a["g"])
        h = (lstm.sigmoid(a["o"]) * np.tanh(c)) @ p["U_p"].T
        np.testing.assert_allclose(output[t], h, rtol=0, atol=1e-13)
        np.testing.assert_allclose(trace["c"][t], c, rtol=0, atol=1e-13)
    np.testing.assert_array_equal(final_c, trace["c"][-1])


def test_linear_is_the_convolution_with_powers_of_its_matrix() -> None:
    p, (x, (h,)) = random_parameters(Linear()), random_batch(Linear())
    output = run(Linear(), p, x, (h,))[0]
    for t in range(len(x)):
        powers = [np.linalg.matrix_power(p["U_h"], t - s) for s in range(t + 1)]
        expected = sum(x[s] @ p["W_h"].T @ power.T for s, power in enumerate(powers))
        expected = expected + h @ np.linalg.matrix_power(p["U_h"], t + 1).T
        np.testing.assert_allclose(output[t], expected, rtol=1e-12, atol=1e-12)
