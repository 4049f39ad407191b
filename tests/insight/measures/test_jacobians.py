"""Jacobians of steps and of their products, against closed forms and against autograd through the layer itself."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from tests.insight.models import each_wide_cell, loss_of, small_input, small_stack, stack_of
from tests.variants import LENGTHS, as_state, as_states, each_cell
from torch import Tensor, nn

from unspool.cells import GRU, LSTM, Cell, Elman, Linear, ResetAfterGRU
from unspool.errors import ArgumentError
from unspool.insight.measures import jacobians
from unspool.insight.measures.jacobians import QUANTILES, measure_jacobians
from unspool.insight.recorded_layer import RecordedLayer
from unspool.insight.recording import Recording, record
from unspool.nn import Recurrent


def recorded(model: nn.Module, x: Tensor, lengths: Any = None) -> Recording:
    return record(model, lambda model: loss_of(model(x, lengths=lengths)[0]))


def slow_jacobian(module: Any, x: Tensor, before: Tensor, widths: list[int]) -> Tensor:
    """∂(states after these steps)/∂(states before them) of one row, by autograd through the layer."""

    def run(states: Tensor) -> Tensor:
        _, final = module(x.unsqueeze(1), as_state(states.unsqueeze(0).split(widths, -1)))
        return torch.cat(as_states(final), -1)[0]

    found: Tensor = torch.autograd.functional.jacobian(run, before)
    return found


def quantiles(matrix: Tensor) -> Any:
    values = np.linalg.svd(matrix.numpy(), compute_uv=False)
    values[values < values.max() * len(values) * np.finfo(np.float64).eps] = 0
    return np.quantile(values, QUANTILES)


def mean_of(found: list[Any]) -> Any:
    return np.prod(found, axis=0) ** (1 / len(found))


@each_cell
@pytest.mark.parametrize(("layers", "both"), [(1, False), (2, True)])
def test_against_autograd(cell: Cell, layers: int, both: bool) -> None:
    model = small_stack(cell, layers, both)
    recording = recorded(model, small_input(cell), LENGTHS)
    found = measure_jacobians(recording, lags=4, rows=1)
    assert found.labels == tuple(layer.label for layer in recording.layers)
    row = LENGTHS.index(5)  # the longest one is the row that is looked at
    for number, layer in enumerate(recording.layers):
        module, widths = model.get_submodule(layer.name), list(layer.widths.values())
        radii = []
        for t in range(5):
            slow = slow_jacobian(module, layer.x[t : t + 1, row], layer.before[t, row], widths)
            np.testing.assert_allclose(found.singular[number, t], quantiles(slow), rtol=1e-9, atol=1e-12)
            radii.append(np.abs(np.linalg.eigvals(slow.numpy())).max())
        # A defective eigenvalue, such as that of a nilpotent block, is known to no more than a root of the rounding.
        np.testing.assert_allclose(found.radius[number], np.mean(radii), rtol=1e-7)
        assert (found.products[number, 0] == 1).all()
        for lag in range(1, 4):
            slow_products = []
            for start in (0, 2):
                first = 4 - start if layer.reverse else start  # in the order in which steps run
                part = slice(first - lag + 1, first + 1) if layer.reverse else slice(first, first + lag)
                slow = slow_jacobian(module, layer.x[part, row], layer.before[first, row], widths)
                slow_products.append(quantiles(slow))
            np.testing.assert_allclose(
                found.products[number, lag], mean_of(slow_products), rtol=1e-8, atol=1e-10 * slow_products[0][-1]
            )


def test_mean_over_rows() -> None:
    cell = LSTM()
    model = small_stack(cell)
    recording = recorded(model, small_input(cell), LENGTHS)
    (layer,) = recording.layers
    found = measure_jacobians(recording, lags=6, rows=3)
    module, widths = model.get_submodule(layer.name), list(layer.widths.values())
    for t, rows in enumerate([(1, 0, 4), (1, 0, 4), (1, 0, 4), (1,), (1,)]):
        slow = [quantiles(slow_jacobian(module, layer.x[t : t + 1, r], layer.before[t, r], widths)) for r in rows]
        np.testing.assert_allclose(found.singular[0, t], mean_of(slow), rtol=1e-10)
    for lag, rows in enumerate([(1, 0, 4)] * 3 + [(1,)] * 2, 1):  # rows that go on that long
        slow = [quantiles(slow_jacobian(module, layer.x[:lag, r], layer.before[0, r], widths)) for r in rows]
        np.testing.assert_allclose(found.products[0, lag], mean_of(slow), rtol=1e-9, atol=1e-15)


def test_orthogonal_keeps() -> None:
    """The document's case: every product of an orthogonal matrix has all singular values 1."""
    torch.manual_seed(0)
    module = Recurrent(Linear(), 2, 6, dtype=torch.float64)
    nn.init.orthogonal_(module.U_h)  # type: ignore[arg-type]
    found = measure_jacobians(recorded(module, torch.randn(40, 3, 2, dtype=torch.float64)))
    np.testing.assert_allclose(found.singular, 1, rtol=1e-13)
    np.testing.assert_allclose(found.products, 1, rtol=1e-12)
    np.testing.assert_allclose(found.radius, 1, rtol=1e-13)


def test_elman() -> None:
    """diag(φ'(a_t)) U."""
    module = Recurrent(Elman(), 3, 5, dtype=torch.float64)
    recording = recorded(module, torch.randn(7, 1, 3, dtype=torch.float64))
    output = recording.layers[0].output[:, 0].numpy()
    weights = module.cell_parameters()["U_h"].detach().numpy()
    for t, quantile in enumerate(measure_jacobians(recording).singular[0]):
        closed = np.linalg.svd((1 - output[t] ** 2)[:, None] * weights, compute_uv=False)
        np.testing.assert_allclose(quantile, np.quantile(closed, QUANTILES), rtol=1e-10)


@pytest.mark.parametrize(
    ("cell", "gate", "keep"),
    [(LSTM(), "f", lambda f: f), (GRU(), "z", lambda z: 1 - z), (ResetAfterGRU(), "z", lambda z: z)],
    ids=["lstm", "gru", "reset-after"],
)
def test_gated_cells_lead_with_their_gate(cell: Cell, gate: str, keep: Any) -> None:
    """Without recurrent matrices ∂c/∂c is diag(f), ∂h/∂h is diag(1 − z) or diag(z)."""
    module = Recurrent(cell, 3, 4, dtype=torch.float64)
    with torch.no_grad():
        for name, parameter in module.cell_parameters().items():
            parameter.mul_(0.0 if name.startswith("U_") else 3.0)
            if name == "b_o":
                parameter.fill_(-1e3)  # h is then 0 whatever c is, and the values of ∂c/∂c stand alone
    recording = recorded(module, torch.randn(6, 1, 3, dtype=torch.float64))
    (layer,) = recording.layers
    gates = keep(layer.named[gate][:, 0].numpy())
    found = measure_jacobians(recording)
    for t in range(6):
        expected = np.concatenate([gates[t], np.zeros(layer.after.shape[-1] - 4)])
        np.testing.assert_allclose(found.singular[0, t], np.quantile(expected, QUANTILES), rtol=1e-12)
    np.testing.assert_allclose(found.radius[0], gates.max(-1).mean(), rtol=1e-12)


def test_sampling_of_wide_states(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is measured at all is what is measured without a limit."""
    recording = recorded(small_stack(LSTM(), 2), small_input(LSTM(), steps=30))
    whole = measure_jacobians(recording, rows=1)
    monkeypatch.setattr(jacobians, "WORK", 30 * 2 * 8**3)
    some = measure_jacobians(recording, rows=1)
    measured = ~np.isnan(some.singular[..., 0])
    assert (measured.sum(1) == 10).all()
    assert measured[:, [0, -1]].all()
    np.testing.assert_array_equal(some.singular[measured], whole.singular[measured])
    lags = ~np.isnan(some.products[..., 0])
    assert (lags.sum(1) == 11).all()  # lag 0, and 10 of 1 … 30
    for number, layer in enumerate(recording.layers):
        t = np.flatnonzero(measured[number])[5]  # the one in the middle, where only one is allowed
        row = layer.jacobians(layer.x[t, :1], layer.before[t, :1])[0].numpy()
        np.testing.assert_allclose(some.radius[number], np.abs(np.linalg.eigvals(row)).max(), rtol=1e-12)


@each_wide_cell
def test_a_matrix_of_state_against_autograd(cell: Cell) -> None:
    """Of 1,000 states some steps and lags are measured: exactly, but for the radius, which is of all these steps."""
    model = stack_of(cell)
    recording = recorded(model, small_input(cell), LENGTHS)
    found = measure_jacobians(recording, lags=5, rows=1)
    (layer,) = recording.layers
    module, widths, row = model.get_submodule(layer.name), list(layer.widths.values()), LENGTHS.index(5)
    steps, lags = (np.flatnonzero(np.isfinite(values[0]).all(-1)) for values in (found.singular, found.products))
    assert (steps.tolist(), lags.tolist()) == ([0, 4], [0, 3])
    assert np.isnan(found.singular[0, 1:4]).all()
    radii = []
    for t in steps:
        slow = slow_jacobian(module, layer.x[t : t + 1, row], layer.before[t, row], widths)
        np.testing.assert_allclose(found.singular[0, t], quantiles(slow), rtol=1e-9, atol=1e-12)
        radii.append(np.abs(np.linalg.eigvals(slow.numpy())).max())
    np.testing.assert_allclose(found.radius, np.mean(radii), rtol=1e-6)
    slow = slow_jacobian(module, layer.x[1:4, row], layer.before[1, row], widths)  # the lag of 3 in the middle
    np.testing.assert_allclose(found.products[0, 3], quantiles(slow), rtol=1e-8, atol=1e-10)


def test_products_of_very_wide_states_are_short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each factor of a product costs much then, not only the singular values at its end."""
    recording = recorded(small_stack(LSTM(), 1), small_input(LSTM(), steps=30))
    whole = measure_jacobians(recording, rows=1)
    monkeypatch.setattr(jacobians, "WORK", 0)
    some = measure_jacobians(recording, rows=1)
    measured = ~np.isnan(some.products[0, :, 0])
    assert np.flatnonzero(measured).max() <= jacobians.FACTORS
    assert measured.sum() == 2
    whole_middle = recording.layers[0]
    t = np.arange(30)[30 - jacobians.FACTORS >> 1 :][: int(np.flatnonzero(measured).max())]
    product = np.linalg.multi_dot([np.eye(8), *[step_jacobian(whole_middle, int(one)) for one in t[::-1]]])
    np.testing.assert_allclose(
        some.products[0, measured][-1], np.quantile(np.linalg.svd(product)[1], QUANTILES), rtol=1e-9
    )
    np.testing.assert_array_equal(whole.products[0, 0], some.products[0, 0])


def step_jacobian(layer: RecordedLayer, t: int) -> NDArray[np.float64]:
    found: NDArray[np.float64] = layer.jacobians(layer.x[t, :1], layer.before[t, :1])[0].numpy()
    return found


def test_nothing_to_measure() -> None:
    module = Recurrent(Elman(), 3, 4, dtype=torch.float64)
    one = measure_jacobians(recorded(module, torch.randn(1, 1, 3, dtype=torch.float64)), lags=3)
    assert np.isfinite(one.singular).all()
    assert np.isfinite(one.products[:, :2]).all()
    assert np.isnan(one.products[:, 2]).all()
    x = torch.randn(4, 2, 3, dtype=torch.float64)
    none = measure_jacobians(recorded(module, x, [0, 0]))
    assert np.isnan(none.singular).all()
    assert np.isnan(none.products).all()
    assert np.isnan(none.radius).all()
    with torch.no_grad():
        module.cell_parameters()["U_h"][0, 0] = torch.nan
    broken = measure_jacobians(recorded(module, x))
    assert np.isnan(broken.singular).all()
    assert np.isnan(broken.products[:, 1:]).all()
    assert np.isnan(broken.radius).all()


def test_goes_on_from_call_to_call() -> None:
    """A row's products cross calls where the state is handed on, and only there."""
    module = Recurrent(Linear(), 2, 3, dtype=torch.float64)
    model = nn.ModuleDict({"rnn": module})
    x = torch.randn(6, 1, 2, dtype=torch.float64)

    def run(model: Any, hand_on: bool) -> Tensor:
        first, state = model["rnn"](x[:4])
        second, _ = model["rnn"](x[4:], state if hand_on else state + 1)
        return loss_of(torch.cat([first, second]))

    weights = module.cell_parameters()["U_h"].detach()
    on = measure_jacobians(record(model, lambda model: run(model, True)), lags=7)
    np.testing.assert_allclose(on.products[0, 6], quantiles(torch.linalg.matrix_power(weights, 6)), 1e-9, 1e-15)
    anew = measure_jacobians(record(model, lambda model: run(model, False)), lags=7)
    np.testing.assert_allclose(anew.products[0, 4], quantiles(torch.linalg.matrix_power(weights, 4)), 1e-9, 1e-15)
    assert np.isnan(anew.products[0, 5:]).all()


@pytest.mark.parametrize("bad", [{"lags": 0}, {"rows": 0}])
def test_refusals(bad: dict[str, int]) -> None:
    recording = recorded(Recurrent(Elman(), 3, 4), torch.randn(2, 1, 3))
    with pytest.raises(ArgumentError, match=next(iter(bad))):
        measure_jacobians(recording, **bad)
