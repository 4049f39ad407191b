"""Linear networks and VARMA processes: one impulse response from every side, statsmodels' included."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from statsmodels.tools.sm_exceptions import EstimationWarning
from statsmodels.tsa.arima_process import arma_impulse_response
from statsmodels.tsa.statespace.varmax import VARMAX
from torch import nn

from unspool.engine import run
from unspool.errors import ArgumentError, ArgumentTypeError, ShapeError
from unspool.exchange import LinearSystem, Varma, from_varma, layer_of, system_of, to_varma
from unspool.nn.recurrent import Recurrent

STEPS = 30


def assert_close(actual: NDArray[Any], expected: NDArray[Any]) -> None:
    np.testing.assert_allclose(actual, expected, rtol=1e-10, atol=1e-10)


def random_system(n: int, m: int, k: int, seed: int, radius: float = 0.95) -> LinearSystem:
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(n, n))
    A *= radius / np.abs(np.linalg.eigvals(A)).max()
    return LinearSystem(A, rng.normal(size=(n, m)), rng.normal(size=(k, n)))


def random_varma(p: int, q: int, k: int, m: int, seed: int) -> Varma:
    rng = np.random.default_rng(seed)
    return Varma(rng.normal(size=(p, k, k)) * 0.3 / max(p, 1), rng.normal(size=(q + 1, k, m)))


def impulses(m: int) -> NDArray[np.float64]:
    """(time, batch, m): row j is an impulse of input j at step 0."""
    x = np.zeros((STEPS, m, m))
    x[0] = np.eye(m)
    return x


def simulate(varma: Varma, x: NDArray[np.float64]) -> NDArray[np.float64]:
    """y for one input sequence, from the definition."""
    y = np.zeros((len(x), varma.ma.shape[1]))
    for t in range(len(x)):
        for i, ar in enumerate(varma.ar, start=1):
            y[t] += ar @ y[t - i] if t >= i else 0
        for j, ma in enumerate(varma.ma):
            y[t] += ma @ x[t - j] if t >= j else 0
    return y


systems = st.builds(
    random_system, st.integers(1, 6), st.integers(1, 3), st.integers(1, 3), st.integers(0, 10**6), st.floats(0, 1)
)
processes = st.builds(
    random_varma, st.integers(0, 3), st.integers(0, 3), st.integers(1, 3), st.integers(1, 3), st.integers(0, 10**6)
)


@given(systems)
@settings(max_examples=100, deadline=None)
def test_every_side_of_a_system_answers_an_impulse_alike(system: LinearSystem) -> None:
    expected = np.stack([system.C @ np.linalg.matrix_power(system.A, i) @ system.B for i in range(STEPS)])
    assert_close(system.impulse_response(STEPS), expected)
    varma = to_varma(system)
    assert_close(varma.impulse_response(STEPS), expected)
    assert_close(from_varma(varma).impulse_response(STEPS), expected)
    x = impulses(system.B.shape[1])
    layer, readout = layer_of(system)
    y = readout(layer(torch.from_numpy(x))[0]).detach().numpy()
    assert_close(y.transpose(0, 2, 1), expected)
    h, _, _ = run("linear", {"U_h": system.A, "W_h": system.B}, x)
    assert_close((h @ system.C.T).transpose(0, 2, 1), expected)


@given(processes)
@settings(max_examples=100, deadline=None)
def test_every_side_of_a_process_answers_alike(varma: Varma) -> None:
    m = varma.ma.shape[2]
    expected = np.stack([simulate(varma, impulses(m)[:, j]) for j in range(m)], -1)
    assert_close(varma.impulse_response(STEPS), expected)
    assert_close(from_varma(varma).impulse_response(STEPS), expected)
    assert_close(to_varma(from_varma(varma)).impulse_response(STEPS), expected)
    x = np.random.default_rng(0).normal(size=(STEPS, 1, m))
    layer, readout = layer_of(from_varma(varma))
    y = readout(layer(torch.from_numpy(x))[0]).detach().numpy()
    assert_close(y[:, 0], simulate(varma, x[:, 0]))


def test_statsmodels_varmax() -> None:
    """k = 2, p = 2, q = 1, in which an innovation enters as it is."""
    varma = random_varma(2, 1, 2, 2, seed=4)
    varma = Varma(varma.ar, [np.eye(2), varma.ma[1]])  # type: ignore[arg-type]
    with pytest.warns(EstimationWarning, match="Estimation of VARMA"):  # nothing is estimated here
        model = VARMAX(np.zeros((20, 2)), order=(2, 1), trend="n")
    parameters = dict.fromkeys(model.param_names, 0.0)
    for prefix, matrices in (("L{}.{}.{}", varma.ar), ("L{}.e({}).{}", varma.ma[1:])):
        for lag, matrix in enumerate(matrices, start=1):
            for i in range(2):
                for j in range(2):
                    parameters[prefix.format(lag, f"y{j + 1}", f"y{i + 1}")] = matrix[i, j]
    assert len(parameters) == len(model.param_names)  # no name was made up
    assert np.count_nonzero(list(parameters.values())) == 12
    values = np.array([parameters[name] for name in model.param_names])
    expected = np.stack([model.impulse_responses(values, STEPS - 1, impulse=j) for j in range(2)], -1)
    system = from_varma(varma)
    for other in (varma, system, to_varma(system)):
        assert_close(other.impulse_response(STEPS), expected)


@pytest.mark.parametrize(("p", "q"), [(1, 0), (2, 1), (3, 2), (0, 2), (2, 3)])
def test_statsmodels_arma(p: int, q: int) -> None:
    rng = np.random.default_rng(10 * p + q)
    phi, theta = rng.normal(size=p) / (p + 1), rng.normal(size=q)
    expected = arma_impulse_response([1, *-phi], [1, *theta], STEPS)
    varma = Varma(phi.reshape(-1, 1, 1), np.array([1, *theta]).reshape(-1, 1, 1))
    system = from_varma(varma)
    for other in (varma, system, to_varma(system)):
        assert_close(other.impulse_response(STEPS)[:, 0, 0], expected)
    assert len(system.A) == max(p, q + 1)


def test_by_hand() -> None:
    """One state: y_t = a y_{t−1} + c b x_t. Two: y_t = (trace) y_{t−1} − (determinant) y_{t−2} + …"""
    one = to_varma(LinearSystem([[0.5]], [[2.0]], [[3.0]]))  # type: ignore[arg-type]
    assert one.ar.tolist() == [[[0.5]]]
    assert one.ma.tolist() == [[[6.0]]]
    A, B, C = np.array([[0.5, 0.25], [1.0, -0.25]]), np.array([[1.0], [2.0]]), np.array([[1.0, -1.0]])
    two = to_varma(LinearSystem(A, B, C))
    np.testing.assert_allclose(two.ar[:, 0, 0], [0.25, 0.375], rtol=1e-15)
    adjugate = np.array([[-0.25, -0.25], [-1.0, 0.5]])  # adj(I − A L) = I − adj(A) L
    np.testing.assert_allclose(two.ma, [C @ B, -C @ adjugate @ B], rtol=1e-15)


@pytest.mark.parametrize("n", [1, 2, 5])
def test_a_state_that_forgets_all_at_once(n: int) -> None:
    """A nilpotent A gives a moving average: its response ends after n steps."""
    system = LinearSystem(np.eye(n, k=1), np.eye(n, 1, k=1 - n), np.eye(1, n))
    varma = to_varma(system)
    assert np.all(varma.ar == 0)
    expected = np.zeros((STEPS, 1, 1))
    expected[n - 1] = 1
    np.testing.assert_array_equal(varma.impulse_response(STEPS), expected)


def test_an_unstable_system_converts_as_well() -> None:
    system = random_system(4, 2, 2, seed=0, radius=1.1)
    np.testing.assert_allclose(
        to_varma(system).impulse_response(STEPS), system.impulse_response(STEPS), rtol=1e-10, atol=1e-9
    )


def test_refuses_what_coefficients_cannot_express() -> None:
    """Wilkinson's polynomials: the more roots stand in a row, the less their coefficients say about them."""

    def in_a_row(n: int) -> LinearSystem:
        return LinearSystem(np.diag(np.linspace(0.5, 0.99, n)), np.ones((n, 1)), np.ones((1, n)))

    assert_close(to_varma(in_a_row(6)).impulse_response(100), in_a_row(6).impulse_response(100))
    with pytest.raises(ArgumentError, match="20 eigenvalues too close"):
        to_varma(in_a_row(20))
    wild = to_varma(random_system(20, 1, 1, seed=0, radius=1e3))  # grows beyond 1e308 within the steps compared
    assert np.isfinite(wild.ar).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_system_of_a_layer(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    layer, readout = Recurrent("linear", 2, 3, dtype=dtype), nn.Linear(3, 4, bias=False, dtype=dtype)
    x = torch.randn(STEPS, 1, 2, dtype=dtype)
    for head, y in ((None, layer(x)[0]), (readout, readout(layer(x)[0]))):
        response = system_of(layer, head).impulse_response(STEPS)
        expected = [sum(response[i] @ x[t - i, 0].double().numpy() for i in range(t + 1)) for t in range(STEPS)]
        tolerance = 1e-5 if dtype == torch.float32 else 1e-12
        np.testing.assert_allclose(y[:, 0].detach().numpy(), np.stack(expected), rtol=tolerance, atol=tolerance)


def test_a_layer_and_its_system_round_trip() -> None:
    system = random_system(3, 2, 4, seed=1)
    layer, readout = layer_of(system)
    again = system_of(layer, readout)
    for name in ("A", "B", "C"):
        np.testing.assert_array_equal(getattr(again, name), getattr(system, name))
    with torch.no_grad():
        layer.get_parameter("U_h").zero_()
    assert np.all(again.A == system.A)
    assert np.any(system.A != 0)  # the layer has weights of its own


@pytest.mark.parametrize(
    ("layer", "readout", "error", "match"),
    [
        (Recurrent("elman", 2, 3), None, ArgumentTypeError, "not linear"),
        (nn.RNN(2, 3), None, ArgumentTypeError, "not linear"),
        (Recurrent("linear", 2, 3, reverse=True), None, ArgumentError, "backwards"),
        (Recurrent("linear", 2, 3, learn_initial=True), None, ArgumentError, "learned state"),
        (Recurrent("linear", 2, 3), nn.Linear(3, 1), ArgumentError, "bias"),
        (Recurrent("linear", 2, 3), nn.Linear(2, 1, bias=False), ShapeError, "reads 2 where the layer gives 3"),
        (Recurrent("linear", 2, 3), nn.Identity(), ArgumentTypeError, "not a torch.nn.Linear"),
    ],
)
def test_layers_that_are_no_system(layer: Any, readout: Any, error: type[Exception], match: str) -> None:
    with pytest.raises(error, match=match):
        system_of(layer, readout)


def test_a_bias_of_zero_is_no_bias() -> None:
    layer, readout = Recurrent("linear", 2, 3), nn.Linear(3, 1)
    nn.init.zeros_(readout.bias)
    np.testing.assert_array_equal(system_of(layer, readout).C, readout.weight.detach().double().numpy())


@pytest.mark.parametrize(
    ("matrices", "error", "match"),
    [
        ((np.ones((2, 3)), np.ones((2, 1)), np.ones((1, 2))), ShapeError, "`A` .*square"),
        ((np.eye(2), np.ones((3, 1)), np.ones((1, 2))), ShapeError, "`B`"),
        ((np.eye(2), np.ones((2, 1)), np.ones((1, 3))), ShapeError, "`C`"),
        ((np.eye(2), np.ones(2), np.ones((1, 2))), ShapeError, "`B` .*2 dimensions"),
        ((np.empty((0, 0)), np.empty((0, 1)), np.empty((1, 0))), ShapeError, "`A` .*length 0"),
        ((np.eye(2) * np.nan, np.ones((2, 1)), np.ones((1, 2))), ArgumentError, "`A` contains NaN"),
        ((np.eye(2) * 1j, np.ones((2, 1)), np.ones((1, 2))), ArgumentTypeError, "(?s)`A` .*real numbers"),
        ((np.eye(2), [["a"], ["b"]], np.ones((1, 2))), ArgumentTypeError, "`B`"),
        ((np.eye(2), [[1.0], [1.0, 2.0]], np.ones((1, 2))), ArgumentTypeError, "`B`"),
    ],
)
def test_matrices_that_are_no_system(matrices: Any, error: type[Exception], match: str) -> None:
    with pytest.raises(error, match=match):
        LinearSystem(*matrices)


@pytest.mark.parametrize(
    ("ar", "ma", "match"),
    [
        (np.zeros((1, 2, 2)), np.zeros((1, 3, 1)), "`ar`"),
        (np.zeros((1, 2, 3)), np.zeros((1, 2, 1)), "`ar`"),
        (np.zeros((2, 2)), np.zeros((1, 2, 1)), "`ar` .*3 dimensions"),
        (np.zeros((1, 2, 2)), np.zeros((0, 2, 1)), "`ma` .*present"),
        (np.zeros((0, 2, 2)), np.zeros((1, 2, 0)), "`ma` .*length 0"),
    ],
)
def test_matrices_that_are_no_process(ar: Any, ma: Any, match: str) -> None:
    with pytest.raises(ShapeError, match=match):
        Varma(ar, ma)


def test_they_cannot_be_changed() -> None:
    A = np.array([[0.5]])
    system = LinearSystem(A, np.ones((1, 1)), np.ones((1, 1)))
    A[0, 0] = 7
    assert system.A[0, 0] == 0.5
    with pytest.raises(ValueError, match="read-only"):
        system.A[0, 0] = 7
    with pytest.raises(AttributeError):
        system.A = A  # type: ignore[misc]


@pytest.mark.parametrize("steps", [0, -1, 2.5, True])
def test_bad_steps(steps: Any) -> None:
    system = random_system(2, 1, 1, seed=0)
    for model in (system, to_varma(system)):
        with pytest.raises(ArgumentError, match="steps"):
            model.impulse_response(steps)
