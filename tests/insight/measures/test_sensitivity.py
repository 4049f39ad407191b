"""Sensitivity kernels against the closed form of linear stacks, and against autograd through the plain model."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from tests.insight.models import loss_of, small_input, small_stack
from tests.variants import each_cell
from torch import Tensor, nn

from unspool.cells import Cell, Elman, Linear
from unspool.errors import ArgumentError
from unspool.insight.measures.sensitivity import measure_sensitivity, random_directions
from unspool.insight.recording import Recording, record
from unspool.nn import Recurrent, Stack


def recorded(model: nn.Module, x: Tensor, lengths: Any = None) -> Recording:
    return record(model, lambda model: loss_of(model(x, lengths=lengths)[0]))


def plain(model: Any, x: Tensor, without: str) -> Tensor:
    """The stack run layer by layer; the one layer without recurrence is run anew at every step."""
    for level, layer in enumerate(model.layers):
        parts = [f"layers.{level}.ahead", f"layers.{level}.back"] if hasattr(layer, "back") else [f"layers.{level}"]
        outputs = []
        for name in parts:
            part = model.get_submodule(name)
            if name == without:
                outputs.append(torch.cat([part(x[t : t + 1])[0] for t in range(len(x))]))
            else:
                outputs.append(part(x)[0])
        x = torch.cat(outputs, -1)
    return x


@each_cell
@pytest.mark.parametrize(("layers", "both"), [(1, False), (2, True)])
def test_against_autograd(cell: Cell, layers: int, both: bool) -> None:
    model, x = small_stack(cell, layers, both), small_input(cell, steps=5, rows=8)
    recording = recorded(model, x)
    found = measure_sensitivity(recording)
    at, count = (2, 3) if both else (1, 4)
    np.testing.assert_array_equal(found.lags, np.arange(count))
    directions = random_directions(8, x.shape[-1])
    for without in ("", *(layer.name for layer in recording.layers)):
        width = plain(model, x, without).shape[-1]
        copies = x.repeat_interleave(5 * width, 1).requires_grad_()  # each is asked for one value of its row's output
        asked = plain(model, copies, without).reshape(5, 8, 5 * width, width).permute(1, 2, 0, 3)
        asked = asked.reshape(8, 5 * width, 5 * width).diagonal(dim1=1, dim2=2)
        (gradient,) = torch.autograd.grad(asked.sum(), copies)
        jacobian = gradient[at].reshape(8, 5, width, -1)  # of every output by x at the impulse
        size = torch.einsum("rtoi,ri->rto", jacobian, directions).norm(dim=-1).mean(0)
        expected = np.array([float(size[at + k] + (size[at - k] if both and k else 0)) for k in range(count)])
        if without:
            number = [layer.name for layer in recording.layers].index(without)
            np.testing.assert_allclose(found.removed[number], expected, rtol=1e-9, atol=1e-12)
            np.testing.assert_allclose(found.delta[number], found.kernel.sum() - expected.sum(), rtol=1e-9, atol=1e-12)
        else:
            np.testing.assert_allclose(found.kernel, expected, rtol=1e-9, atol=1e-12)


def linear_stack(w: tuple[float, ...], c: tuple[float, ...]) -> Stack:
    stack = Stack(Linear(), 1, 1, len(w), dtype=torch.float64)
    with torch.no_grad():
        for layer, own, read in zip(stack.layers, w, c, strict=True):
            assert isinstance(layer, Recurrent)
            layer.cell_parameters()["U_h"].fill_(own)
            layer.cell_parameters()["W_h"].fill_(read)
    return stack


def test_linear_stack() -> None:
    """K is the convolution of the layers' powers; without layer ℓ its power is 1 at lag 0 and 0 after."""
    w, c = (0.8, -0.5, 0.3), (1.5, 0.5, 2.0)
    found = measure_sensitivity(recorded(linear_stack(w, c), torch.randn(40, 3, 1, dtype=torch.float64)))
    assert len(found.lags) == 30
    powers = [np.power(one, np.arange(30.0)) for one in w]

    def kernel(of: list[Any]) -> Any:
        total = np.array([1.5])
        for each in of:
            total = np.convolve(total, each)[:30]
        return np.abs(total)

    np.testing.assert_allclose(found.kernel, kernel(powers), rtol=1e-12, atol=1e-14)
    impulse = np.eye(1, 30)[0]
    for level in range(3):
        alone = kernel([impulse if number == level else one for number, one in enumerate(powers)])
        np.testing.assert_allclose(found.removed[level], alone, rtol=1e-12, atol=1e-14)
        np.testing.assert_allclose(found.delta[level], kernel(powers).sum() - alone.sum(), rtol=1e-11)
    assert found.delta[0] > 0 > found.delta[1]  # 0.8 accumulates; −0.5 smooths what 0.8 has gathered


def test_reads_backwards() -> None:
    layer = Recurrent(Linear(), 1, 1, reverse=True, dtype=torch.float64)
    with torch.no_grad():
        layer.cell_parameters()["U_h"].fill_(0.5)
        layer.cell_parameters()["W_h"].fill_(1.0)
    found = measure_sensitivity(recorded(layer, torch.randn(16, 2, 1, dtype=torch.float64), [16, 7]))
    np.testing.assert_allclose(found.kernel, 0.5 ** np.arange(12.0), rtol=1e-13)
    assert measure_sensitivity(recorded(layer, torch.randn(16, 2, 1, dtype=torch.float64)), limit=3).kernel.shape == (
        3,
    )


def test_step_by_step() -> None:
    """A model that calls its layer once a step has the same kernel."""
    layer = Recurrent(Elman(), 2, 3, dtype=torch.float64)
    x = torch.randn(8, 2, 2, dtype=torch.float64)

    def stepwise(model: Any) -> Tensor:
        state, outputs = None, []
        for t in range(8):
            output, state = model(x[t : t + 1], state)
            outputs.append(output)
        return loss_of(torch.cat(outputs))

    whole, steps = measure_sensitivity(recorded(layer, x)), measure_sensitivity(record(layer, stepwise))
    np.testing.assert_allclose(steps.kernel, whole.kernel, rtol=1e-12)


def test_nothing_to_measure() -> None:
    layer = Recurrent(Elman(), 2, 3, dtype=torch.float64)
    one = measure_sensitivity(recorded(layer, torch.randn(1, 1, 2, dtype=torch.float64)))
    assert one.kernel.shape == (1,)
    np.testing.assert_allclose(one.delta, 0, atol=1e-15)
    none = measure_sensitivity(recorded(layer, torch.randn(3, 1, 2, dtype=torch.float64), [0]))
    assert none.removed.shape == (1, 0)
    assert np.isnan(none.delta).all()
    with pytest.raises(ArgumentError, match="limit"):
        measure_sensitivity(recorded(layer, torch.randn(3, 1, 2, dtype=torch.float64)), limit=0)
