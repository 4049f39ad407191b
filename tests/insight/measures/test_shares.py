"""Shares of the steps in a weight's gradient against networks with a copy of the weights for every step."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tests.insight.measures.test_flow import scalar, unrolled
from tests.insight.models import each_stack, loss_of, small_input, small_stack
from tests.variants import LENGTHS, STEPS

from unspool.cells import LSTM, Cell
from unspool.insight.measures.shares import measure_shares
from unspool.insight.recording import record
from unspool.nn import Recurrent
from unspool.nn.unfold import Unfolded


@each_stack
def test_are_the_gradients_of_copies(cell: Cell, layers: int, both: bool) -> None:
    stack, x = small_stack(cell, layers, both), small_input(cell)
    found = measure_shares(record(stack, lambda model: loss_of(model(x, lengths=LENGTHS)[0])))
    output, _, copies = unrolled(stack, x, LENGTHS, torch.ones(1, dtype=torch.float64))
    for row, used in enumerate(copies.values()):
        every = [value for one in used for value in one.values()]
        grads = torch.autograd.grad(
            loss_of(output), every, retain_graph=True, allow_unused=True, materialize_grads=True
        )
        size = len(grads) // STEPS
        by_step = [torch.cat([grad.flatten() for grad in grads[t * size : (t + 1) * size]]) for t in range(STEPS)]
        whole = torch.stack(by_step).sum(0)
        shares = [float(step @ whole / (whole @ whole)) for step in by_step]
        np.testing.assert_allclose(found.shares[row], shares, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(found.norms[row], [float(step.norm()) for step in by_step], rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(found.shares.sum(1), 1, rtol=1e-12)


@pytest.mark.parametrize("reverse", [False, True])
def test_are_what_unfolding_gives(reverse: bool) -> None:
    layer = Recurrent(LSTM(), 3, 4, reverse=reverse, dtype=torch.float64)
    model = torch.nn.ModuleDict({"rnn": layer})
    x = small_input(LSTM())
    found = measure_shares(record(model, lambda model: loss_of(model["rnn"](x)[0])))  # type: ignore[index]
    unfolded = Unfolded(layer, STEPS, tied=False)
    loss_of(unfolded(x)[0]).backward()
    for t, step in enumerate(unfolded.steps):
        norm = torch.cat([p.grad.flatten() for p in step.parameters() if p.grad is not None]).norm()
        np.testing.assert_allclose(found.norms[0, t], float(norm), rtol=1e-10)


def test_by_hand() -> None:
    """h₂ = w(w·h₀ + v x₁) + v x₂ = h₁ w + …: with x = (1, 2), w = 3, v = 1, ∂h₂/∂(v, w) is (3, 0) and (2, 1)."""
    x = torch.tensor([1.0, 2.0], dtype=torch.float64).reshape(2, 1, 1)
    found = measure_shares(record(scalar(3.0), lambda model: model(x)[0][-1].sum()))
    np.testing.assert_allclose(found.norms, [[3, np.sqrt(5)]], rtol=1e-14)
    np.testing.assert_allclose(found.shares, [[15 / 26, 11 / 26]], rtol=1e-14)


def test_steps_without_rows_and_gradients_of_zero() -> None:
    x = torch.ones(4, 2, 1, dtype=torch.float64)
    found = measure_shares(record(scalar(0.5), lambda model: model(x, lengths=[2, 1])[0].sum()))
    assert found.shares[0, 2:].tolist() == [0, 0]
    nothing = measure_shares(record(scalar(0.5), lambda model: 0 * model(x)[0].sum()))
    assert np.isnan(nothing.shares).all()
    assert not nothing.norms.any()
