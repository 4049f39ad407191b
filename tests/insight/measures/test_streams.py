"""Gradient streams against autograd by hand, weights of zero, and Fibonacci numbers."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tests.insight.models import Wired, loss_of, small_input, small_stack
from tests.variants import LENGTHS, STEPS, each_cell
from torch import Tensor, nn

from unspool.cells import GRU, Cell, Elman
from unspool.insight.measures.streams import measure_streams
from unspool.insight.recording import record
from unspool.nn import Bidirectional, Recurrent


@each_cell
@pytest.mark.parametrize("both", [False, True], ids=["ahead", "both"])
def test_between_two_levels(cell: Cell, both: bool) -> None:
    """What reaches a lower unit is the gradient of one upper unit's copy of what it reads."""
    stack, x = small_stack(cell, 2, both), small_input(cell)
    found = measure_streams(record(stack, lambda model: loss_of(model(x, lengths=LENGTHS)[0])))
    below, _ = stack.layers[0](x, lengths=LENGTHS)
    below = below.detach()
    upper = stack.layers[1]
    parts = [upper.ahead, upper.back] if isinstance(upper, Bidirectional) else [upper]
    copies = [below.clone().requires_grad_() for _ in parts]
    outputs = [part(copy, lengths=LENGTHS)[0] for part, copy in zip(parts, copies, strict=True)]
    grads = torch.autograd.grad(loss_of(torch.cat(outputs, -1)), copies)
    expected = np.zeros((2 * len(parts), 2 * len(parts)))
    live = (torch.arange(STEPS).unsqueeze(1) < torch.tensor(LENGTHS)).unsqueeze(-1)
    for row, grad in enumerate(grads):
        for column, half in enumerate((grad * live).chunk(len(parts), -1)):
            expected[len(parts) + row, column] = float(half.norm())
    np.testing.assert_allclose(found.flows, expected, rtol=1e-9, atol=1e-12)
    assert found.paths == 1
    if both:
        energy = np.square(expected[2:, :2])
        assert found.cross == pytest.approx((energy[0, 1] + energy[1, 0]) / energy.sum(), rel=1e-9)
    else:
        assert found.cross is None


def test_weights_of_zero_keep_the_directions_apart() -> None:
    stack, x = small_stack(GRU(), 2, both=True), small_input(GRU())
    run = lambda model: loss_of(model(x)[0])  # noqa: E731
    mixed = measure_streams(record(stack, run)).cross
    assert mixed is not None
    assert mixed > 0.1
    upper = stack.layers[1]
    assert isinstance(upper, Bidirectional)
    with torch.no_grad():
        for part, others in ((upper.ahead, slice(4, 8)), (upper.back, slice(0, 4))):
            for name, value in part.cell_parameters().items():
                if name.startswith("W_"):
                    value[:, others] = 0
    assert measure_streams(record(stack, run)).cross == 0
    with torch.no_grad():
        for part, own in ((upper.ahead, slice(0, 4)), (upper.back, slice(4, 8))):
            for name, value in part.cell_parameters().items():
                if name.startswith("W_"):
                    value[:, own.start ^ 4 : (own.start ^ 4) + 4] = value[:, own].clone()
                    value[:, own] = 0
    assert measure_streams(record(stack, run)).cross == 1


@pytest.mark.parametrize(("layers", "ways"), [(1, 1), (2, 1), (3, 2), (4, 3), (5, 5), (6, 8), (7, 13)])
@pytest.mark.parametrize("both", [False, True])
def test_skips_have_fibonacci_ways(layers: int, ways: int, both: bool) -> None:
    stack = small_stack(Elman(), layers, both, skip=True)
    found = measure_streams(record(stack, lambda model: loss_of(model(small_input(Elman()))[0])))
    assert found.paths == ways


def test_ways_of_residual_and_plain_stacks() -> None:
    x = small_input(Elman())
    run = lambda model: loss_of(model(x)[0])  # noqa: E731
    assert measure_streams(record(small_stack(Elman(), 4), run)).paths == 1
    residual = small_stack(Elman(), 4, residual=[False, True, True, True])
    # Layer 4 reads h₁ + h₂ + h₃, layer 3 h₁ + h₂, layer 2 h₁: any selection of the two between is a way.
    assert measure_streams(record(residual, run)).paths == 4
    cut = small_stack(Elman(), 3)
    middle = cut.layers[1]
    assert isinstance(middle, Recurrent)
    nn.init.zeros_(middle.cell_parameters()["W_h"])
    assert measure_streams(record(cut, run)).paths == 0


def test_any_wiring() -> None:
    """A decoder's gradient reaches its encoder through what it reads and through where it starts."""
    model, x = Wired(), torch.randn(6, 2, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    found = measure_streams(record(model, lambda model: loss_of(model(x))))
    middle, (h, _) = model.below(x)
    middle, h = middle.detach().requires_grad_(), h[:1].detach().requires_grad_()
    mixed = torch.tanh(model.between(middle)) + model.between(middle).roll(1, 0)
    grads: tuple[Tensor, ...] = torch.autograd.grad(loss_of(model.above(mixed, h)[0]), [middle, h])
    names = ["below layer 1 →", "below layer 1 ←", "below layer 2 →", "below layer 2 ←", "above layer 1"]
    assert list(found.labels) == names
    # h[:1] is where the lowest forward layer ended.
    expected = [grads[1].norm(), 0, grads[0][..., :4].norm(), grads[0][..., 4:].norm(), 0]
    np.testing.assert_allclose(found.flows[4], [float(one) for one in expected], rtol=1e-10, atol=1e-14)
    assert found.paths == 2


def test_a_single_level_has_nothing_between() -> None:
    stack, x = small_stack(Elman(), both=True), small_input(Elman(), 1, 1)
    found = measure_streams(record(stack, lambda model: loss_of(model(x)[0])))
    assert (found.flows.tolist(), found.cross, found.paths) == ([[0, 0], [0, 0]], None, 1)
