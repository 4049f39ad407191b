"""Frequency responses against the formula of linear stacks, and against autograd's Jacobian of the plain layers."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from tests.insight.models import loss_of, small_input, small_stack
from tests.variants import each_cell
from torch import Tensor, nn

from unspool.cells import Cell, Elman, Linear
from unspool.errors import ArgumentError
from unspool.insight.measures.frequency import first_order, fit_error, measure_frequency
from unspool.insight.measures.sensitivity import random_directions
from unspool.insight.recording import Recording, record
from unspool.nn import Recurrent, Stack

STEPS = 12


def recorded(model: nn.Module, x: Tensor, lengths: Any = None) -> Recording:
    return record(model, lambda model: loss_of(model(x, lengths=lengths)[0]))


def amplitude(signal: Any, omega: float, times: Any) -> Any:
    """Y in the nearest Re(Y e^{iωt}) of a signal (time, width), by its normal equations."""
    cos, sin = np.cos(omega * times), np.sin(omega * times)
    if math.isclose(omega, math.pi):
        return cos @ signal / (cos @ cos) + 0j
    a, b = np.linalg.solve([[cos @ cos, cos @ sin], [cos @ sin, sin @ sin]], np.stack([cos @ signal, sin @ signal]))
    return a - 1j * b


def jacobian_of(run: Any, x: Tensor) -> Tensor:
    """(time, output, time, input) of a row x (time, input): as many copies of it, each asked for one value."""
    steps, width = len(x), run(x.unsqueeze(1)).shape[-1]
    copies = x.unsqueeze(1).repeat(1, steps * width, 1).requires_grad_()
    asked = run(copies).transpose(0, 1).reshape(steps * width, steps * width).diagonal()
    (found,) = torch.autograd.grad(asked.sum(), copies)
    return found.transpose(0, 1).reshape(steps, width, steps, -1)


def response(jacobian: Tensor, omega: float, direction: Tensor) -> Any:
    """What a sinusoid does, by the Jacobian (time, output, time, input) of one row."""
    wave = torch.outer(torch.cos(omega * torch.arange(jacobian.shape[2], dtype=torch.float64)), direction)
    return torch.einsum("toui,ui->to", jacobian, wave).numpy()


@each_cell
@pytest.mark.parametrize(("layers", "both"), [(1, False), (2, True)])
def test_against_autograd(cell: Cell, layers: int, both: bool) -> None:
    model, x = small_stack(cell, layers, both), small_input(cell, STEPS, rows=6)
    recording = recorded(model, x)
    found = measure_frequency(recording, count=3)
    steady = np.arange(4, 8) if both else np.arange(6, 12)
    np.testing.assert_allclose(found.omega, np.geomspace(2 * math.pi / len(steady), math.pi, 3))
    for number, layer in enumerate(recording.layers):
        module: Any = model.get_submodule(layer.name)
        level, half = layer.level, slice(None)
        if both:
            width = layer.output.shape[-1]
            half = slice(width, None) if layer.reverse else slice(width)
        through, own = [], []
        for row in range(6):

            def upwards(x: Tensor, level: int = level, half: slice = half) -> Tensor:
                found: Tensor = model(x, every_layer=True)[0][level][..., half]
                return found

            def alone(x: Tensor, module: Any = module, reverse: bool = layer.reverse) -> Tensor:
                output: Tensor = module(x.flip(0) if reverse else x)[0]
                return output.flip(0) if reverse else output  # in the order in which steps run

            read = layer.x[:, row].flip(0) if layer.reverse else layer.x[:, row]
            through.append(jacobian_of(upwards, x[:, row]))
            if row < 2:
                own.append(jacobian_of(alone, read))
        phases = []
        for place, omega in enumerate(found.omega):
            waves = [
                amplitude(response(own[k], omega, direction)[6:], omega, np.arange(6, 12))
                for k, direction in enumerate(random_directions(2, layer.x.shape[-1]))
            ]
            gain = math.sqrt(np.mean([np.square(np.abs(wave)).sum() for wave in waves]))
            np.testing.assert_allclose(found.gains[number, place], gain, rtol=1e-9, atol=1e-12)
            rows = [place, 3 + place]  # six rows carry three frequencies in one direction, then in the other
            waves = [
                amplitude(response(through[row], omega, direction)[steady], omega, steady)
                for row, direction in zip(rows, random_directions(2, x.shape[-1]), strict=True)
            ]
            gain = math.sqrt(np.mean([np.square(np.abs(wave)).sum() for wave in waves]))
            np.testing.assert_allclose(found.stack[number, place], gain, rtol=1e-9, atol=1e-12)
            phases.append(np.array(waves))
        signs = np.where(phases[0].real < 0, -1, 1)
        turned = np.exp(1j * found.phase[number])
        for place, waves_there in enumerate(phases):
            total = (waves_there * signs).sum()
            np.testing.assert_allclose(turned[place], total / abs(total), atol=1e-6)


def linear_stack(w: tuple[float, ...], c: tuple[float, ...], both: bool = False) -> Stack:
    stack = Stack(Linear(), 1, 1, len(w), bidirectional=both, dtype=torch.float64)
    with torch.no_grad():
        for level, (own, read) in enumerate(zip(w, c, strict=True)):
            for name, parameter in stack.layers[level].named_parameters():
                parameter.fill_(own if name.endswith("U_h") else read)
    return stack


def test_linear_stack() -> None:
    """Each layer's gain is c/√(1 − 2a cos ω + a²), and the stack's is the product of those below."""
    a, c = (0.8, -0.4, 0.6), (1.5, 0.5, 2.0)
    x = torch.randn(400, 3, 1, dtype=torch.float64)
    found = measure_frequency(recorded(linear_stack(a, c), x, [400, 380, 400]))
    assert len(found.omega) == 12
    assert found.omega[-1] == pytest.approx(math.pi)
    transfer = np.array([scale / (1 - pole * np.exp(-1j * found.omega)) for pole, scale in zip(a, c, strict=True)])
    formula = [s / np.sqrt(1 - 2 * p * np.cos(found.omega) + p * p) for p, s in zip(a, c, strict=True)]
    np.testing.assert_allclose(found.gains, formula, rtol=1e-9)
    np.testing.assert_allclose(found.stack, np.cumprod(formula, 0), rtol=1e-9)
    np.testing.assert_allclose(found.phase, np.unwrap(np.angle(np.cumprod(transfer, 0))), atol=1e-9)
    np.testing.assert_allclose(found.pole, a, rtol=1e-8)
    np.testing.assert_allclose(found.theory, formula, rtol=1e-8)
    np.testing.assert_allclose(found.error, 0, atol=1e-8)


def test_both_directions() -> None:
    """The layer above reads both: the sum of the transfer and of its conjugate is real, so they do not delay."""
    found = measure_frequency(recorded(linear_stack((0.5, 0.3), (1.0, 1.0), True), torch.randn(240, 2, 1).double()), 6)
    ahead = 1 / (1 - 0.5 * np.exp(-1j * found.omega))
    above = 2 * ahead.real / (1 - 0.3 * np.exp(-1j * found.omega))
    np.testing.assert_allclose(found.phase[:2], [np.angle(ahead), -np.angle(ahead)], atol=1e-10)
    np.testing.assert_allclose(found.stack[2:], [np.abs(above)] * 2, rtol=1e-10)
    np.testing.assert_allclose(found.phase[2:], [np.angle(above), -np.angle(above)], atol=1e-10)
    np.testing.assert_allclose(found.pole, [0.5, 0.5, 0.3, 0.3], rtol=1e-9)


def test_first_order_fit() -> None:
    omega = np.geomspace(0.05, math.pi, 9)
    for a, c in ((0.9, 2.0), (0.0, 1.0), (-0.7, 0.1)):
        gain = c / np.sqrt(1 - 2 * a * np.cos(omega) + a * a)
        np.testing.assert_allclose(first_order(omega, gain), (a, c), rtol=1e-9, atol=1e-12)
        gain[0] = np.nan
        np.testing.assert_allclose(first_order(omega, gain), (a, c), rtol=1e-9, atol=1e-12)
    assert np.isnan(first_order(omega, np.zeros(9))).all()
    for sign in (1, -1):  # of second order: no pole within the circle fits; the mirror image rises towards π
        assert np.isnan(first_order(omega, 1 / (1 - sign * np.cos(omega) + 1e-9))).all()
    assert np.isnan(first_order(omega[:2], np.array([2.0, 1.0]))).all()  # two gains are met by some filter


def test_the_error_of_a_fit() -> None:
    gain = np.array([1.0, 2.0, np.nan, 4.0])
    assert fit_error(gain, gain) == 0
    assert fit_error(gain, 1.25 * gain) == pytest.approx(0.25)
    assert math.isnan(fit_error(gain, np.full(4, np.nan)))


def test_a_resonance_is_no_filter_of_first_order() -> None:
    """A rotation by 60° answers best to its own frequency: the nearest filter is off, and says by how much."""
    module = Recurrent(Linear(), 1, 2, dtype=torch.float64)
    turn = 0.95 * torch.tensor([[0.5, -(0.75**0.5)], [0.75**0.5, 0.5]], dtype=torch.float64)
    with torch.no_grad():
        module.cell_parameters()["U_h"].copy_(turn)
    found = measure_frequency(recorded(module, torch.randn(200, 2, 1, dtype=torch.float64)))
    assert not found.error[0] < 0.3  # NaN if there is no stable one at all


def test_nothing_to_measure() -> None:
    module = Recurrent(Elman(), 2, 3, dtype=torch.float64)
    x = torch.randn(20, 2, 2, dtype=torch.float64)
    for recording in (recorded(module, x[:1]), recorded(module, x, [0, 0]), recorded(module, x[:6])):
        short = measure_frequency(recording)
        assert short.omega.shape == (0,)
        assert short.gains.shape == short.stack.shape == short.phase.shape == short.theory.shape == (1, 0)
        assert np.isnan(short.pole).all()
    with torch.no_grad():
        module.cell_parameters()["W_h"].zero_()
    dead = measure_frequency(recorded(module, x))
    np.testing.assert_array_equal(dead.gains, 0)
    assert np.isnan(dead.pole).all()
    with torch.no_grad():
        module.cell_parameters()["U_h"][0, 0] = torch.nan
    assert np.isnan(measure_frequency(recorded(module, x)).pole).all()
    with pytest.raises(ArgumentError, match="count"):
        measure_frequency(recorded(module, x), count=1)
