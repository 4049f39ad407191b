"""The gradients' norm against float64 sums, clipping against torch's own."""

from __future__ import annotations

import math
from collections.abc import Iterator

import pytest
import torch
from torch import Tensor, nn

from unspool.errors import ArgumentError
from unspool.learning.clipping import PIECE, clip_gradients, gradient_norm


@pytest.fixture(autouse=True)
def check_sparse() -> Iterator[None]:
    with torch.sparse.check_sparse_tensor_invariants():
        yield


def draw(dtype: torch.dtype = torch.float32, scale: float = 1.0) -> list[nn.Parameter]:
    torch.manual_seed(0)
    parameters = [nn.Parameter(torch.zeros(shape, dtype=dtype)) for shape in [(30, 40), (7,), (), (0, 3), (5, 2)]]
    for parameter in parameters[:-1]:  # the last has no gradient
        parameter.grad = scale * torch.randn(parameter.shape, dtype=dtype)
    return parameters


def embedding_gradient() -> nn.Parameter:
    """A sparse gradient in which row 1 comes twice."""
    layer = nn.Embedding(9, 4, sparse=True)
    (layer(torch.tensor([1, 5, 1])) * torch.arange(12.0).view(3, 4)).sum().backward()
    (weight,) = layer.parameters()
    return weight


def dense(parameters: list[nn.Parameter]) -> list[Tensor]:
    found = [p.grad.to_dense().double() for p in parameters if p.grad is not None]
    return [gradient.clone() for gradient in found]


def reference(parameters: list[nn.Parameter]) -> float:
    return math.sqrt(math.fsum(float(value) ** 2 for g in dense(parameters) for value in g.flatten()))


def test_norm_of_dense_and_sparse() -> None:
    parameters = [*draw(), embedding_gradient()]
    assert gradient_norm(parameters) == pytest.approx(reference(parameters), rel=1e-7)
    rows = [8.0, 10, 12, 14, 4, 5, 6, 7]  # the two parts of row 1, 0…3 and 8…11, are added before they are squared
    assert gradient_norm(parameters[-1:]) == pytest.approx(math.hypot(*rows), rel=1e-7)
    assert not parameters[-1].grad.is_coalesced()  # type: ignore[union-attr] # it is left as it was


def test_norm_of_mixed_dtypes() -> None:
    parameters = [*draw(torch.float64), *draw(torch.float32)]
    assert gradient_norm(iter(parameters)) == pytest.approx(reference(parameters), rel=1e-7)
    assert gradient_norm(draw(torch.float64)) == pytest.approx(reference(draw(torch.float64)), rel=1e-14)


def test_norm_of_millions_is_right_to_rounding() -> None:
    """A single float32 sum over as many would be off by more than 1e-5."""
    parameter = nn.Parameter(torch.zeros(40, PIECE + 1))
    parameter.grad = torch.randn(parameter.shape, generator=torch.Generator().manual_seed(1))
    assert gradient_norm([parameter]) == pytest.approx(parameter.grad.double().norm().item(), rel=1e-6)


def test_squares_beyond_float32() -> None:
    parameters = draw(scale=1e25)
    assert gradient_norm(parameters) == pytest.approx(reference(parameters), rel=1e-7)
    clip_gradients(parameters, 2.0)
    assert reference(parameters) == pytest.approx(2.0, rel=1e-6)


def test_nothing_to_do() -> None:
    assert gradient_norm([]) == 0
    assert clip_gradients([nn.Parameter(torch.ones(3))], 1.0) == 0


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_clipping_equals_torch(dtype: torch.dtype) -> None:
    ours, theirs = draw(dtype), draw(dtype)
    expected = nn.utils.clip_grad_norm_(theirs, 0.5)
    found = clip_gradients(ours, 0.5)
    assert found == pytest.approx(expected.item(), rel=1e-6)
    for mine, other in zip(dense(ours), dense(theirs), strict=True):
        torch.testing.assert_close(mine, other, rtol=3e-6, atol=0)
    assert gradient_norm(ours) == pytest.approx(0.5, rel=1e-7 if dtype == torch.float32 else 1e-14)


def test_sparse_gradients_are_scaled_in_place() -> None:
    parameters = [*draw(), embedding_gradient()]
    before, gradients = dense(parameters), [p.grad for p in parameters]
    norm = clip_gradients(parameters, 1.5)
    for old, new in zip(before, dense(parameters), strict=True):
        torch.testing.assert_close(new, old * (1.5 / norm), rtol=1e-6, atol=0)
    assert all(p.grad is gradient for p, gradient in zip(parameters, gradients, strict=True))


@pytest.mark.parametrize("limit", [None, math.inf, 1e6])
def test_norms_within_the_limit_change_nothing(limit: float | None) -> None:
    parameters = draw()
    before = dense(parameters)
    assert clip_gradients(parameters, limit) == pytest.approx(reference(parameters), rel=1e-7)
    assert all(torch.equal(old, new) for old, new in zip(before, dense(parameters), strict=True))


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_norms_that_are_not_finite_change_nothing(value: float) -> None:
    parameters = draw()
    parameters[1].grad[3] = value  # type: ignore[index]
    before = dense(parameters)
    assert clip_gradients(parameters, 1e-3) == pytest.approx(value, nan_ok=True)
    for old, new in zip(before, dense(parameters), strict=True):
        torch.testing.assert_close(new, old, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("limit", [0, -1.0, math.nan])
def test_bad_limit(limit: float) -> None:
    with pytest.raises(ArgumentError, match="`limit`.*None to clip nothing"):
        clip_gradients([], limit)
