"""The range test on quadratics, whose limit of stability is 2 divided by the largest curvature."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from unspool.errors import ArgumentError
from unspool.learning.lr_finder import find_lr, restored
from unspool.learning.optimizer_state import optimizer_tensors
from unspool.learning.optimizers import make_optimizer


def quadratic(curvatures: list[float], floor: float = 0.0, noise: float = 0.0) -> Callable[[float], float]:
    """Gradient descent on floor + Σ c w²/2 from w = 1; the loss is that before the update."""
    c = torch.tensor(curvatures, dtype=torch.float64)
    w = torch.ones_like(c)
    generator = torch.Generator().manual_seed(0)

    def step(lr: float) -> float:
        nonlocal w
        loss = floor + float((c * w * w).sum()) / 2 + noise * float(torch.randn((), generator=generator))
        w = w - lr * c * w
        return loss

    return step


@pytest.mark.parametrize("largest", [0.5, 10.0, 200.0])
@pytest.mark.parametrize(("floor", "noise"), [(0.0, 0.0), (1.0, 0.02)])
def test_below_the_limit_of_stability(largest: float, floor: float, noise: float) -> None:
    curvatures = [largest, largest / 3, largest / 10]
    scaled = noise * largest
    search = find_lr(quadratic(curvatures, floor * largest, scaled), lowest=1e-6, highest=1e3, count=200)
    limit = 2 / largest
    assert limit / 300 < search.suggestion < limit
    assert search.lrs[-1] < 100 * limit  # it stopped soon after the loss broke out
    final = find_lr(quadratic(curvatures), lowest=search.suggestion, highest=search.suggestion * 1.0001, count=200)
    assert final.losses[-1] < 1e-2 * final.losses[0]  # and the suggestion does train


def test_learning_rates_losses_and_suggestion_by_hand() -> None:
    given = [5.0, 5.0, 4.0, 2.0, 1.5, 1.4, 1.5, 30.0, 30.0, 1.0]
    seen: list[float] = []

    def step(lr: float) -> float:
        seen.append(lr)
        return given[len(seen) - 1]

    search = find_lr(step, lowest=1e-3, highest=1e6, count=10)
    smoothed = []
    for end in range(1, 11):
        weights = [0.9 ** (end - 1 - k) for k in range(end)]
        smoothed.append(sum(w * loss for w, loss in zip(weights, given, strict=False)) / sum(weights))
    assert min(smoothed[:9]) == smoothed[6]
    assert smoothed[7] < 4 * smoothed[6]
    assert search.lrs == tuple(seen)
    assert seen == pytest.approx([1e-3 * 10.0**k for k in range(len(seen))], rel=1e-12)
    assert search.losses == pytest.approx(smoothed[: len(seen)], rel=1e-12)
    slopes = [(smoothed[k + 1] - smoothed[k - 1]) / 2 for k in range(1, 6)]
    assert min(slopes[4:]) == slopes[4]  # the first of them are too young
    assert search.suggestion == pytest.approx(1e-3 * 10**5, rel=1e-12)


def test_never_above_a_third_of_the_minimum() -> None:
    losses = iter([9.0 - 0.01 * k * k for k in range(25)] + [1e9] * 5)
    search = find_lr(lambda lr: next(losses), lowest=1.0, highest=1.1**29, count=30)
    minimum = search.losses.index(min(search.losses))
    assert search.suggestion == pytest.approx(search.lrs[minimum] / 3, rel=1e-12)


def test_stops_when_the_loss_breaks_out_or_is_not_finite() -> None:
    calls: list[float] = []

    def break_out(value: float) -> Callable[[float], float]:
        def step(lr: float) -> float:
            calls.append(lr)
            return 2.0 - 0.1 * len(calls) if len(calls) < 12 else value

        return step

    for value, extra in ((1e3, 1), (math.nan, 0), (math.inf, 0)):
        calls.clear()
        search = find_lr(break_out(value))
        assert len(calls) == 12
        assert len(search.lrs) == len(search.losses) == 11 + extra
        assert all(math.isfinite(loss) for loss in search.losses)


def test_losses_below_zero_are_losses_too() -> None:
    losses = iter([-1.0 - 0.1 * k for k in range(30)])
    assert len(find_lr(lambda lr: next(losses), count=30).lrs) == 30


@pytest.mark.parametrize("value", [1.0, math.nan])
def test_a_loss_that_never_falls(value: float) -> None:
    with pytest.raises(ArgumentError, match="never fell below" if value == 1 else "the loss is not finite"):
        find_lr(lambda lr: value * (1 + lr))


def test_bad_arguments() -> None:
    with pytest.raises(ArgumentError, match="`lowest`"):
        find_lr(lambda lr: lr, lowest=1.0, highest=0.1)
    with pytest.raises(ArgumentError, match="`count`"):
        find_lr(lambda lr: lr, count=2)


class Restless(nn.Module):
    """Dropout, running statistics, and a buffer that is replaced by another tensor in every call."""

    last: Tensor | None
    total: Tensor

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layers = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Dropout(0.5), nn.Linear(8, 3))
        self.register_buffer("total", torch.zeros(()))
        self.register_buffer("last", None, persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        self.total = self.total + 1
        self.last = x
        y: Tensor = self.layers(x)
        return y


@pytest.mark.parametrize("name", ["sgd", "adamw"])
@pytest.mark.parametrize("fails", [False, True])
def test_restored(name: str, fails: bool) -> None:
    model = Restless()
    optimizer = make_optimizer(name, model, lr=0.01, momentum=0.9 if name == "sgd" else 0.0)

    def step(lr: float) -> float:
        for group in optimizer.param_groups:
            group["lr"] = lr
        optimizer.zero_grad(set_to_none=False)
        loss = functional.cross_entropy(model(torch.randn(16, 4)), torch.arange(16) % 3)
        loss.backward()
        optimizer.step()
        return loss.item()

    step(0.01)
    buffers, weights = copy.deepcopy(dict(model.named_buffers())), copy.deepcopy(model.state_dict())
    gradients = [parameter.grad.clone() for parameter in model.parameters() if parameter.grad is not None]
    tensors, facts = optimizer_tensors(optimizer)
    random = torch.get_rng_state()
    total, last = model.total, model.last
    try:
        with restored(model, optimizer):
            find_lr(step, lowest=1e-4, highest=100, count=40)
            model.last = None
            if fails:
                raise KeyboardInterrupt
    except KeyboardInterrupt:
        assert fails
    assert torch.equal(torch.get_rng_state(), random)
    assert all(torch.equal(weights[key], value) for key, value in model.state_dict().items())
    assert dict(model.named_buffers()).keys() == buffers.keys()
    assert all(torch.equal(buffers[key], value) for key, value in model.named_buffers())
    assert model.total is total
    assert model.last is last
    assert all(torch.equal(a, b.grad) for a, b in zip(gradients, model.parameters(), strict=True))  # type: ignore[arg-type]
    after = optimizer_tensors(optimizer)
    assert after[1] == facts
    assert after[0].keys() == tensors.keys()
    assert all(torch.equal(after[0][key], value) for key, value in tensors.items())
