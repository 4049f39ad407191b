"""Opinion pools against probabilities that are averaged and multiplied by hand."""

from __future__ import annotations

import pytest
import torch

from unspool.errors import ArgumentError, ShapeError
from unspool.nn import linear_pool, log_pool

LOGITS = [torch.randn(5, 3, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(n)) for n in range(3)]
PROBABILITIES = torch.stack([one.exp() / one.exp().sum(-1, keepdim=True) for one in LOGITS])


def weigh(weights: list[float]) -> torch.Tensor:
    return torch.tensor(weights, dtype=torch.float64).reshape(3, 1, 1, 1)


@pytest.mark.parametrize("weights", [None, [1.0, 1.0, 1.0], [0.2, 0.5, 0.3], [0.0, 2.0, 2.0]])
def test_the_linear_pool_is_the_weighted_mean(weights: list[float] | None) -> None:
    given = weigh(weights or [1.0, 1.0, 1.0])
    expected = (given * PROBABILITIES).sum(0) / given.sum()
    torch.testing.assert_close(linear_pool(LOGITS, weights).exp(), expected)


@pytest.mark.parametrize("weights", [None, [1.0, 1.0, 1.0], [0.2, 0.5, 0.3], [0.0, 2.0, 2.0]])
def test_the_logarithmic_pool_is_the_normalized_product(weights: list[float] | None) -> None:
    product = (PROBABILITIES ** weigh(weights or [1 / 3] * 3)).prod(0)
    torch.testing.assert_close(log_pool(LOGITS, weights).exp(), product / product.sum(-1, keepdim=True))


def test_certainty_stays_finite() -> None:
    sure = [torch.tensor([0.0, -200.0]), torch.tensor([-200.0, 0.0])]
    torch.testing.assert_close(linear_pool(sure).exp(), torch.tensor([0.5, 0.5]))
    torch.testing.assert_close(log_pool(sure).exp(), torch.tensor([0.5, 0.5]))


def test_gradients_flow() -> None:
    logits = [one.clone().requires_grad_() for one in LOGITS]
    assert torch.autograd.gradcheck(lambda *one: linear_pool(one, [1, 2, 3]), logits)
    assert torch.autograd.gradcheck(lambda *one: log_pool(one, [1, 2, 3]), logits)


@pytest.mark.parametrize("pool", [linear_pool, log_pool])
def test_bad_arguments_are_refused(pool: object) -> None:
    assert callable(pool)
    with pytest.raises(ArgumentError, match="no opinion"):
        pool([])
    with pytest.raises(ShapeError, match="one shape"):
        pool([torch.zeros(3), torch.zeros(4)])
    for weights in ([1.0], [1.0, -1.0, 1.0], [0.0, 0.0, 0.0], [1.0, float("nan"), 1.0]):
        with pytest.raises(ArgumentError, match="weights"):
            pool(LOGITS, weights)
