"""linear_cross_entropy against torch's cross_entropy of all logits at once."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from unspool.errors import ShapeError
from unspool.learning import cross_entropy as module
from unspool.learning.cross_entropy import linear_cross_entropy


def draw(rows: tuple[int, ...], width: int, classes: int, dtype: torch.dtype = torch.float64) -> list[Tensor]:
    torch.manual_seed(0)
    shapes = [(*rows, width), (classes, width), (classes,)]
    h, W, b = (torch.randn(shape, dtype=dtype, requires_grad=True) for shape in shapes)
    return [h, W, b, torch.randint(classes, rows)]


@pytest.mark.parametrize("rows", [(1,), (7,), (5, 3), (2, 3, 4)])
@pytest.mark.parametrize("block", [1, 20, 1 << 20])
@pytest.mark.parametrize("bias", [True, False])
def test_equals_torch(monkeypatch: pytest.MonkeyPatch, rows: tuple[int, ...], block: int, bias: bool) -> None:
    monkeypatch.setattr(module, "BLOCK", block)
    h, W, b, targets = draw(rows, 6, 11)
    given = [h, W, *([b] if bias else [])]
    found = linear_cross_entropy(h, W, b if bias else None, targets) * 3
    logits = functional.linear(h, W, b if bias else None)
    expected = functional.cross_entropy(logits.reshape(-1, 11), targets.reshape(-1)) * 3
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=0)
    for ours, theirs in zip(torch.autograd.grad(found, given), torch.autograd.grad(expected, given), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-11, atol=1e-14)


def test_targets_to_ignore_count_for_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BLOCK", 22)
    h, W, b, targets = draw((9,), 6, 11)
    targets[[0, 3, 4, 8]] = -100
    with torch.no_grad():
        h[3] = math.inf
    found = linear_cross_entropy(h, W, b, targets)
    kept = targets != -100
    expected = functional.cross_entropy(functional.linear(h[kept], W, b), targets[kept])
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=0)
    assert torch.equal(torch.autograd.grad(found, h)[0][~kept], torch.zeros(4, 6, dtype=torch.float64))
    assert linear_cross_entropy(h, W, b, torch.full_like(targets, -100)) == 0


def test_extremes() -> None:
    W = torch.eye(3)
    h = torch.tensor([[1000.0, 0, 0]])
    assert linear_cross_entropy(h, W, None, torch.tensor([0])) == 0
    assert linear_cross_entropy(h, W, None, torch.tensor([1])) == 1000  # not ∞: its probability is e⁻¹⁰⁰⁰, not 0
    assert linear_cross_entropy(-math.inf * h, W, None, torch.tensor([0])).isnan()
    uniform = linear_cross_entropy(torch.zeros(4, 3), W, None, torch.tensor([0, 1, 2, 1]))
    assert math.exp(uniform.item()) == pytest.approx(3)


def test_only_what_is_wanted() -> None:
    h, W, b, targets = draw((9,), 6, 11)
    with torch.no_grad():
        value = linear_cross_entropy(h, W, b, targets)
    (d_W,) = torch.autograd.grad(linear_cross_entropy(h.detach(), W, b.detach(), targets), W)
    torch.testing.assert_close(value, functional.cross_entropy(functional.linear(h, W, b), targets).detach())
    expected = torch.autograd.grad(functional.cross_entropy(functional.linear(h, W, b), targets), W)[0]
    torch.testing.assert_close(d_W, expected)


def test_going_back_twice_gives_the_same_twice() -> None:
    h, W, b, targets = draw((9,), 6, 11)
    loss = 3 * linear_cross_entropy(h, W, b, targets)
    first = torch.autograd.grad(loss, [h, W, b], retain_graph=True)
    kept = [gradient.clone() for gradient in first]
    for gradient in first:
        gradient.zero_()  # as an optimizer may
    for again, gradient in zip(torch.autograd.grad(loss, [h, W, b]), kept, strict=True):
        torch.testing.assert_close(again, gradient, rtol=0, atol=0)


def test_logits_of_a_block_at_most() -> None:
    """Peak of the logits' memory: the profiler sees no allocation near rows × classes."""
    h, W, b, targets = draw((600,), 8, 30_000, torch.float32)
    with torch.profiler.profile(profile_memory=True, activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        linear_cross_entropy(h, W, b, targets)
    largest = max(event.cpu_memory_usage for event in profile.events())
    assert largest <= 1.1 * 4 * module.BLOCK < 0.3 * 4 * 600 * 30_000


def test_shapes_that_do_not_fit() -> None:
    h, W, b, targets = draw((9,), 6, 11)
    with pytest.raises(ShapeError, match="do not fit"):
        linear_cross_entropy(h, W, b, targets[:8])
    with pytest.raises(ShapeError, match="do not fit"):
        linear_cross_entropy(h[:, :5], W, b, targets)
