"""Penalties against sums written out by hand."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
import torch
from torch import Tensor

from unspool.errors import ArgumentError, ArgumentTypeError, DTypeError, ShapeError
from unspool.learning.contract import Outcome
from unspool.learning.penalties import activation_penalty, objective, temporal_penalty
from unspool.settings.training import Training

LENGTHS = [4, 0, 1, 3]


def some_output() -> Tensor:
    return torch.randn(4, len(LENGTHS), 3, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


def by_hand(output: Tensor, lengths: list[int]) -> tuple[float, float]:
    """Mean square of the values and of the changes, number by number."""
    values, changes = [], []
    for row, length in enumerate(lengths):
        for unit in range(output.shape[2]):
            series = [output[t, row, unit].item() for t in range(length)]
            values += [value**2 for value in series]
            changes += [(after - before) ** 2 for before, after in pairwise(series)]
    return sum(values) / len(values), sum(changes) / len(changes)


def test_three_numbers() -> None:
    output = torch.tensor([[1.0], [3.0], [-2.0]])
    assert activation_penalty(output, 3).item() == pytest.approx(3 * (1 + 9 + 4) / 3)
    assert temporal_penalty(output, 2).item() == pytest.approx(2 * (4 + 25) / 2)


@pytest.mark.parametrize("lengths", [None, LENGTHS, torch.tensor(LENGTHS)])
def test_means_by_hand(lengths: Any) -> None:
    output = some_output()
    size, change = by_hand(output, [4] * 4 if lengths is None else LENGTHS)
    for x, time in ((output, 0), (output.transpose(0, 1), 1)):
        ar = activation_penalty(x, 0.5, time=time, lengths=lengths)
        tar = temporal_penalty(x, 0.25, time=time, lengths=lengths)
        assert ar.item() == pytest.approx(0.5 * size, rel=1e-14)
        assert tar.item() == pytest.approx(0.25 * change, rel=1e-14)


def test_gradients_in_closed_form() -> None:
    """∂AR/∂y_t = 2w·y_t/n; ∂TAR/∂y_t = 2w·(y_t − y_{t−1} − (y_{t+1} − y_t))/m, where there are such neighbours."""
    output = some_output().requires_grad_()
    (ar,) = torch.autograd.grad(activation_penalty(output, 0.5, lengths=LENGTHS), output)
    (tar,) = torch.autograd.grad(temporal_penalty(output, 0.25, lengths=LENGTHS), output)
    y, n, m = output.detach(), 3 * (4 + 0 + 1 + 3), 3 * (3 + 0 + 0 + 2)
    for row, length in enumerate(LENGTHS):
        for t in range(len(y)):
            slope = torch.zeros(3, dtype=torch.float64)
            if 0 < t < length:
                slope += y[t, row] - y[t - 1, row]
            if t + 1 < length:
                slope -= y[t + 1, row] - y[t, row]
            torch.testing.assert_close(tar[t, row], 2 * 0.25 * slope / m, rtol=1e-13, atol=1e-15)
            expected = 2 * 0.5 * y[t, row] / n if t < length else torch.zeros_like(slope)
            torch.testing.assert_close(ar[t, row], expected, rtol=1e-13, atol=1e-15)


@pytest.mark.parametrize(("reduction", "factor"), [("mean", 1), ("sum-over-time", 4)])
def test_training_minimizes_the_loss_what_is_added_and_the_penalties(reduction: Any, factor: int) -> None:
    """Means over the four steps, or sums: penalties and auxiliary losses keep their part in the whole."""
    output = some_output()
    square, change = by_hand(output, [4] * len(LENGTHS))
    settings = Training(loss_reduction=reduction, activation_penalty=2.0, temporal_penalty=0.5)
    outcome = Outcome(torch.tensor(0.7, dtype=torch.float64), 16, None, output, extra=torch.tensor(0.2).double())
    assert objective(outcome, settings).item() == pytest.approx(factor * (0.7 + 0.2 + 2 * square + 0.5 * change))
    plain = objective(outcome._replace(extra=None), Training(loss_reduction=reduction))
    assert plain.item() == pytest.approx(factor * 0.7)


@pytest.mark.parametrize("penalty", [activation_penalty, temporal_penalty])
@pytest.mark.parametrize("filler", [7.0, math.inf, math.nan])
def test_the_padding_does_not_count(penalty: Callable[..., Tensor], filler: float) -> None:
    output = some_output()
    padded = torch.full((9, len(LENGTHS), 3), filler, dtype=torch.float64)
    for row, length in enumerate(LENGTHS):
        padded[:length, row] = output[:length, row]
    padded.requires_grad_()
    found = penalty(padded, 0.5, lengths=LENGTHS)
    torch.testing.assert_close(found, penalty(output, 0.5, lengths=LENGTHS), rtol=1e-15, atol=0)
    (slope,) = torch.autograd.grad(found, padded)
    assert slope.isfinite().all()
    assert not any(slope[length:, row].any() for row, length in enumerate(LENGTHS))


@pytest.mark.parametrize("penalty", [activation_penalty, temporal_penalty])
def test_unbatched_is_a_batch_of_one(penalty: Callable[..., Tensor]) -> None:
    one = some_output()[:, 0]
    torch.testing.assert_close(penalty(one, 0.5), penalty(one.unsqueeze(1), 0.5), rtol=1e-15, atol=0)
    torch.testing.assert_close(penalty(one, 0.5, lengths=[3]), penalty(one[:3], 0.5), rtol=1e-15, atol=0)


@pytest.mark.parametrize(
    ("penalty", "shape", "lengths"),
    [
        (activation_penalty, (0, 2, 3), None),
        (activation_penalty, (4, 0, 3), []),
        (activation_penalty, (4, 2, 3), [0, 0]),
        (temporal_penalty, (0, 2, 3), None),
        (temporal_penalty, (0, 2, 3), [0, 0]),
        (temporal_penalty, (1, 2, 3), None),
        (temporal_penalty, (4, 2, 3), [1, 0]),
    ],
)
def test_nothing_to_punish_costs_nothing(
    penalty: Callable[..., Tensor], shape: tuple[int, ...], lengths: list[int] | None
) -> None:
    output = torch.full(shape, math.inf, requires_grad=True)
    found = penalty(output, 2.0, lengths=lengths)
    (slope,) = torch.autograd.grad(found, output)
    assert found.item() == 0
    assert torch.equal(slope, torch.zeros(shape))


@pytest.mark.parametrize("penalty", [activation_penalty, temporal_penalty])
def test_bad_calls(penalty: Callable[..., Tensor]) -> None:
    output = some_output()
    for weight in (-1.0, math.nan, math.inf, True, "1"):
        with pytest.raises(ArgumentError, match=r"`weight` .* is not a number from 0"):
            penalty(output, weight)
    with pytest.raises(ArgumentTypeError, match="`output` .* is not a torch tensor"):
        penalty([1.0], 1)
    with pytest.raises(DTypeError, match=r"`output` \(=torch.int64\) is not a floating dtype"):
        penalty(output.long(), 1)
    with pytest.raises(ShapeError, match=r"`output` .* has no axis 3, the time axis"):
        penalty(output, 1, time=3)
    with pytest.raises(ShapeError, match="has no batch axis for `lengths`"):
        penalty(torch.ones(4), 1, lengths=[2])
    with pytest.raises(ArgumentError, match="`lengths` .* are not all from 0 to 4"):
        penalty(output, 1, lengths=[5, 0, 1, 3])
