"""The bias of truncated gradients against truncated back-propagation itself, and against scaled edges."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tests.insight.measures.test_flow import at_the_end, coefficients, scalar, scales_for, unrolled
from tests.insight.models import loss_of, small_input, small_stack
from tests.variants import LENGTHS, STEPS, each_cell

from unspool.cells import Cell
from unspool.errors import ArgumentError
from unspool.insight.measures import truncation
from unspool.insight.measures.truncation import measure_truncation
from unspool.insight.recording import record
from unspool.insight.sections.truncation import tell
from unspool.learning import TruncatedBPTT
from unspool.nn import Stack


def gradients(stack: Stack) -> torch.Tensor:
    return torch.cat(
        [(torch.zeros_like(p) if p.grad is None else p.grad).flatten() for p in stack.parameters()]
    ).clone()


@each_cell
@pytest.mark.parametrize("layers", [1, 2])
def test_is_that_of_truncated_back_propagation(cell: Cell, layers: int) -> None:
    stack, x = small_stack(cell, layers), small_input(cell)
    found = measure_truncation(record(stack, lambda model: loss_of(model(x)[0])))
    stack.zero_grad()
    output, _ = stack(x)
    weights = torch.linspace(0.5, 1.5, output.numel(), dtype=x.dtype).reshape(output.shape)
    loss_of(output).backward()
    whole = gradients(stack)
    assert found.windows.tolist() == list(range(1, len(found.windows) + 1))
    for window in range(1, STEPS + 1):
        stack.zero_grad()
        for part, span in TruncatedBPTT(stack, window, stride=1).over(x):
            (weights[span] * part.sin()).sum().backward()
        bias = float((gradients(stack) - whole).norm() / whole.norm())
        measured = found.overall[min(window, len(found.windows)) - 1]
        assert measured == pytest.approx(bias, rel=1e-10, abs=1e-10)


@each_cell
@pytest.mark.parametrize("layers", [1, 2])
def test_leaves_out_the_paths_with_more_edges(cell: Cell, layers: int) -> None:
    """Both directions, and rows of unequal length; by powers of a factor on every edge from step to step."""
    stack, x = small_stack(cell, layers, both=True), small_input(cell)
    found = measure_truncation(record(stack, lambda model: loss_of(model(x, lengths=LENGTHS)[0])))
    scales = scales_for(layers * (STEPS - 1))
    runs = []
    for scale in scales:
        output, _, copies = unrolled(stack, x, LENGTHS, torch.tensor([scale]))
        every = [value for layer in copies.values() for step in layer for value in step.values()]
        grads = torch.autograd.grad(loss_of(output), every, allow_unused=True, materialize_grads=True)
        runs.append(torch.cat([grad.flatten() for grad in grads]).numpy())
    by_lag = coefficients(np.array(runs), scales)
    first = 0
    totals, rests = [], []
    for row, layer in enumerate(copies.values()):
        width = sum(value.numel() for value in layer[0].values())
        own = by_lag[:, first : first + width * STEPS].reshape(len(scales), STEPS, width).sum(1)
        first += width * STEPS
        totals.append(own.sum(0))
        rests.append([own[window:].sum(0) for window in found.windows])
        bias = [np.linalg.norm(rest) / np.linalg.norm(totals[-1]) for rest in rests[-1]]
        np.testing.assert_allclose(found.bias[row], bias, rtol=1e-8, atol=1e-10)
    whole = np.linalg.norm(np.concatenate(totals))
    overall = [np.linalg.norm(np.concatenate(rest)) / whole for rest in zip(*rests, strict=True)]
    np.testing.assert_allclose(found.overall, overall, rtol=1e-8, atol=1e-10)


def test_recommends_the_least_window_that_keeps_enough() -> None:
    x = torch.ones(30, 1, 1, dtype=torch.float64)
    found = measure_truncation(record(scalar(0.5), at_the_end(x)))
    assert not found.censored
    assert found.overall[found.recommended - 1] <= 0.01 < found.overall[found.recommended - 2]
    # ∂h_T/∂v loses Σ_{j≥k} ½ʲ of 2, and ∂h_T/∂w, Σ_j ½ʲ h_{T−1−j} with h ≈ 2, about the same share: ½ᵏ.
    assert found.recommended == 7
    short = measure_truncation(record(scalar(0.5), at_the_end(x)), limit=3)
    assert (short.recommended, short.censored, short.windows.tolist()) == (3, True, [1, 2, 3])


def test_large_networks_have_fewer_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(truncation, "WORK", 0.0)
    recording = record(scalar(0.5), at_the_end(torch.ones(30, 1, 1, dtype=torch.float64)))
    found = measure_truncation(recording)
    assert len(found.windows) == 8
    assert not found.unmeasured  # ½⁸ is less than 1 %


def test_windows_that_end_before_one_is_enough_are_not_blamed_on_the_data() -> None:
    recording = record(scalar(0.9), at_the_end(torch.ones(300, 1, 1, dtype=torch.float64)))
    found = measure_truncation(recording, limit=20)
    assert found.unmeasured
    (finding,) = tell(found).findings
    assert "With 20 steps the gradient is still off by 12.2%" in finding  # 0.9²⁰
    assert "the data has too few steps" not in finding
    long, short = (
        measure_truncation(record(scalar(0.9), at_the_end(torch.ones(n, 1, 1, dtype=torch.float64)))) for n in (300, 50)
    )
    assert "are enough" in tell(long).findings[0]
    assert not short.unmeasured
    assert "the data has too few steps" in tell(short).findings[0]


def test_a_gradient_of_zero_has_no_bias() -> None:
    x = torch.ones(3, 1, 1, dtype=torch.float64)
    found = measure_truncation(record(scalar(0.5), lambda model: 0 * model(x)[0].sum()))
    assert np.isnan(found.bias).all()
    assert np.isnan(found.overall).all()
    assert found.censored
    one = measure_truncation(record(scalar(0.5), at_the_end(x[:1])))
    assert (one.recommended, one.censored, one.overall.tolist()) == (1, False, [0])


def test_refuses_no_windows() -> None:
    recording = record(scalar(0.5), at_the_end(torch.ones(3, 1, 1, dtype=torch.float64)))
    with pytest.raises(ArgumentError, match="limit"):
        measure_truncation(recording, limit=0)


@pytest.mark.parametrize(("kept", "bound"), [(0.5, False), (1.0, True)])
def test_a_window_near_the_end_of_the_data_is_a_lower_bound(kept: float, bound: bool) -> None:
    """Of 120 steps, a network that keeps everything seems to need some hundred; one that halves needs ten."""
    layer = Stack("linear", 1, 1, dtype=torch.float64)
    with torch.no_grad():
        for name, value in layer.named_parameters():
            value.fill_(kept if name.endswith("U_h") else 1.0)
    x = torch.randn(120, 2, 1, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    found = measure_truncation(record(layer, lambda model: loss_of(model(x)[0])))
    assert found.censored == bound
    assert (found.recommended > 60) == bound
