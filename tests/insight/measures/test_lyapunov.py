"""Lyapunov exponents against closed forms, and against volumes under the Jacobian of the whole run."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import scipy.stats
import torch
from tests.insight.models import each_wide_cell, loss_of, small_input, small_stack, stack_of
from tests.variants import as_state, as_states, each_cell
from torch import Tensor, nn

from unspool.cells import Cell, Elman, Linear
from unspool.insight.measures import lyapunov
from unspool.insight.measures.lyapunov import measure_lyapunov
from unspool.insight.recording import Recording, record
from unspool.nn import Recurrent


def recorded(model: nn.Module, x: Tensor, lengths: Any = None) -> Recording:
    return record(model, lambda model: loss_of(model(x, lengths=lengths)[0]))


def linear(weights: Tensor) -> Recurrent:
    module = Recurrent(Linear(), 2, len(weights), dtype=torch.float64)
    with torch.no_grad():
        module.cell_parameters()["U_h"].copy_(weights)
    return module


def x_of(steps: int, rows: int = 2, width: int = 2) -> Tensor:
    return torch.randn(steps, rows, width, dtype=torch.float64, generator=torch.Generator().manual_seed(4))


@each_cell
@pytest.mark.parametrize(("layers", "both"), [(1, False), (2, True)])
def test_against_volumes(cell: Cell, layers: int, both: bool) -> None:
    """The first k exponents together are the growth of the volume that the frame's first k directions span."""
    check_volumes(small_stack(cell, layers, both), small_input(cell, rows=2))


@each_wide_cell
def test_the_leading_exponents_of_a_matrix_of_state(cell: Cell) -> None:
    """Of 1,000 states 32 directions are followed, and each as if there were no others."""
    check_volumes(stack_of(cell, both=True), small_input(cell, rows=2), directions=32)


def check_volumes(model: Any, x: Tensor, directions: int | None = None) -> None:
    """So many exponents, or all, against the QR decomposition of the whole run's Jacobian times the frame."""
    lengths = (5, 3)  # too few for a step to be left out
    recording = recorded(model, x, lengths)
    found = measure_lyapunov(recording)
    assert found.labels == tuple(layer.label for layer in recording.layers)
    for layer, exponents, largest in zip(recording.layers, found.exponents, found.largest, strict=True):
        module, widths = model.get_submodule(layer.name), list(layer.widths.values())
        size = sum(widths)
        count = directions or size
        generator = torch.Generator().manual_seed(0)
        frame = torch.linalg.qr(torch.randn(size, count, dtype=torch.float64, generator=generator)).Q
        total = np.zeros(count)
        known = np.ones(count, bool)
        for row, length in enumerate(lengths):

            def run(
                states: Tensor, row: int = row, length: int = length, layer: Any = layer, module: Any = module
            ) -> Tensor:
                widths = list(layer.widths.values())
                start = as_state(states.unsqueeze(0).split(widths, -1))
                return torch.cat(as_states(module(layer.x[:length, row : row + 1], start)[1]), -1)[0]

            start = layer.before[length - 1 if layer.reverse else 0, row]
            carried = (torch.autograd.functional.jacobian(run, start) @ frame).numpy()
            # The diagonal of R is by what each direction adds to the volume of those before it.
            added = np.abs(np.diagonal(np.linalg.qr(carried).R))
            known &= added > 1e-8 * added.max()  # below, the whole product is rounding
            total += np.log(np.where(known, added, 1.0))
        expected = total / sum(lengths)
        assert exponents[0] == largest == np.max(exponents)
        assert (np.diff(exponents[np.isfinite(exponents)]) <= 0).all()
        assert known[0]
        for value in expected[known]:
            assert np.abs(exponents - value).min() < 1e-7
        if known.all():
            np.testing.assert_allclose(exponents, np.sort(expected)[::-1], atol=1e-7)


def test_orthogonal() -> None:
    weights = torch.linalg.qr(x_of(6, 6, 1)[..., 0]).Q
    found = measure_lyapunov(recorded(linear(weights), x_of(50)))
    np.testing.assert_allclose(found.exponents[0], np.zeros(6), atol=1e-13)
    found = measure_lyapunov(recorded(linear(0.7 * weights), x_of(50)))
    np.testing.assert_allclose(found.exponents[0], np.full(6, math.log(0.7)), rtol=1e-12)


def test_constant_matrix() -> None:
    """The logarithms of its eigenvalues' sizes, once the frame has settled."""
    basis = x_of(3, 3, 1)[..., 0]
    weights = basis @ torch.diag(torch.tensor([1.1, -0.5, 0.2], dtype=torch.float64)) @ torch.linalg.inv(basis)
    found = measure_lyapunov(recorded(linear(weights), x_of(600)))
    np.testing.assert_allclose(found.exponents[0], np.log([1.1, 0.5, 0.2]), rtol=1e-10)


@pytest.mark.parametrize("weight", [0.5, -1.5])
def test_scalar(weight: float) -> None:
    found = measure_lyapunov(recorded(linear(torch.tensor([[weight]])), x_of(30)))
    np.testing.assert_allclose(found.largest, [math.log(abs(weight))], rtol=1e-13)


def test_chaos() -> None:
    """A large random tanh net is chaotic where its weights have a variance above 1/size, as mean-field theory says."""
    torch.manual_seed(1)
    module = Recurrent(Elman(), 2, 60, bias=False, dtype=torch.float64)
    parameters = module.cell_parameters()
    largest = []
    for gain in (0.5, 3.0):
        with torch.no_grad():
            parameters["U_h"].normal_(0, gain / math.sqrt(60))
            parameters["W_h"].mul_(0.0)
        x = x_of(150)
        start = torch.randn(2, 60, dtype=torch.float64)
        recording = record(module, lambda model, x=x, start=start: loss_of(model(x, start)[0]))  # type: ignore[misc]
        largest.append(measure_lyapunov(recording).largest[0])
    assert abs(largest[0] - math.log(0.5)) < 0.15
    assert largest[1] > 0.2


def test_wiped_out_directions() -> None:
    """Where relu units are off, nothing of them goes on; and a zero direction along an axis is not taken for all."""
    module = Recurrent(Elman("relu"), 2, 3, dtype=torch.float64)
    with torch.no_grad():
        for name, parameter in module.cell_parameters().items():
            parameter.copy_(torch.eye(3) * 0.5 if name == "U_h" else torch.zeros_like(parameter))
        module.cell_parameters()["b_h"].copy_(torch.tensor([-1.0, 1.0, 1.0]))
    found = measure_lyapunov(recorded(module, x_of(30)))
    np.testing.assert_allclose(found.exponents[0], [math.log(0.5), math.log(0.5), -np.inf], rtol=1e-10)


@pytest.mark.parametrize("size", [1, 2, 6, 12])
def test_nilpotent_maps_have_no_finite_exponent(size: int) -> None:
    """A shift register forgets entirely; in another basis its powers are rounding, not a slow decay."""
    shift = torch.diag(torch.ones(size - 1, dtype=torch.float64), 1)
    basis = torch.linalg.qr(x_of(size, size, 1)[..., 0]).Q
    for weights in (shift, basis @ shift @ basis.T):
        found = measure_lyapunov(recorded(linear(weights), x_of(60)))
        assert (found.exponents[0] == -np.inf).all()
        assert (found.interval == -np.inf).all()


def test_what_is_nearly_nilpotent_is_not() -> None:
    shift = torch.diag(torch.ones(5, dtype=torch.float64), 1)
    shift[-1, 0] = 1e-9  # every sixth power is 1e-9
    found = measure_lyapunov(recorded(linear(shift), x_of(300)))
    np.testing.assert_allclose(found.largest, math.log(1e-9) / 6, rtol=0.02)


def test_the_interval_is_that_of_the_mean_over_halves_of_rows() -> None:
    """One unit, whose growth by step is known: Student's interval of the four means of its halves."""
    module = Recurrent(Elman(), 2, 1, dtype=torch.float64)
    x = x_of(40)
    recording = recorded(module, x)
    found = measure_lyapunov(recording)
    h, weight = recording.layers[0].after[..., 0], module.cell_parameters()["U_h"].item()
    growth = np.log(np.abs(weight * (1 - h.detach().numpy() ** 2)))[4:]
    means = [half.mean() for row in growth.T for half in np.array_split(row, 2)]
    half = scipy.stats.t.ppf(0.975, 3) * scipy.stats.sem(means)
    np.testing.assert_allclose(found.interval[0], [growth.mean() - half, growth.mean() + half], rtol=2e-3)
    quarters = [part.mean() for part in np.array_split(growth[:, 0], 4)]
    alone = measure_lyapunov(recorded(module, x[:, :1]))
    half = scipy.stats.t.ppf(0.975, 3) * scipy.stats.sem(quarters)
    np.testing.assert_allclose(alone.interval[0, 1] - alone.largest[0], half, rtol=2e-3)


def test_narrow_work(monkeypatch: pytest.MonkeyPatch) -> None:
    weights = torch.linalg.qr(x_of(4, 4, 1)[..., 0]).Q
    monkeypatch.setattr(lyapunov, "WORK", 0)
    found = measure_lyapunov(recorded(linear(0.9 * weights), x_of(50)))
    np.testing.assert_allclose(found.exponents[0], np.full(4, math.log(0.9)), rtol=1e-12)


def test_leading_exponents_of_wide_states(monkeypatch: pytest.MonkeyPatch) -> None:
    """A random network: its leading exponents are those of the whole spectrum, after the frame has turned."""
    torch.manual_seed(0)
    module = Recurrent("elman", 2, 12, dtype=torch.float64)
    recording = recorded(module, x_of(400, 2))
    whole = measure_lyapunov(recording)
    monkeypatch.setattr(lyapunov, "WORK", 0)
    monkeypatch.setattr(lyapunov, "LEADING", 3)
    found = measure_lyapunov(recording)
    assert (found.states, found.measured) == ((12,), ((1, 256),))
    assert whole.measured == ((2, 400),)
    assert found.exponents[0].shape == (3,)
    np.testing.assert_allclose(found.exponents[0], whole.exponents[0][:3], atol=0.05)


def test_a_nilpotent_map_that_is_wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lyapunov, "WORK", 0)
    monkeypatch.setattr(lyapunov, "LEADING", 2)
    shift = torch.diag(torch.ones(4, dtype=torch.float64), 1)
    assert measure_lyapunov(recorded(linear(shift), x_of(50))).largest[0] == -np.inf


def test_nothing_to_measure() -> None:
    module = linear(torch.eye(3, dtype=torch.float64))
    assert np.isfinite(measure_lyapunov(recorded(module, x_of(1, 1))).largest).all()
    none = measure_lyapunov(recorded(module, x_of(3), [0, 0]))
    assert none.exponents[0].shape == (3,)
    assert np.isnan(none.exponents[0]).all()
    with torch.no_grad():
        module.cell_parameters()["U_h"][0, 0] = torch.nan
    assert np.isnan(measure_lyapunov(recorded(module, x_of(3))).largest).all()
