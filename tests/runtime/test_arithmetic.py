"""Shared arithmetic against scipy and torch, far out and at the edges; float32 stays float32."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from scipy import special
from tests.runtime.test_stack import INPUT, player_of
from torch.nn import functional

from unspool import nn
from unspool.errors import ArgumentError, ShapeError
from unspool.runtime.arithmetic import (
    cross_entropy,
    log_softmax,
    log_sum_exp,
    masked_softmax,
    sigmoid,
    softmax,
    softplus,
)
from unspool.runtime.embedding import embed
from unspool.runtime.network import Embedding
from unspool.runtime.recurrence import RecurrencePlayer

VALUES = np.concatenate((np.linspace(-200, 200, 4001), [0.0, -0.0, 1e-30, 700.0, -700.0]))


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (sigmoid, special.expit),
        (softplus, lambda v: np.logaddexp(0, v)),
        (softmax, special.softmax),
        (log_softmax, special.log_softmax),
        (log_sum_exp, special.logsumexp),
    ],
)
def test_functions(ours: Any, theirs: Any) -> None:
    np.testing.assert_allclose(ours(VALUES), theirs(VALUES), rtol=1e-13, atol=0)
    assert ours(VALUES.astype(np.float32)).dtype == np.float32


def test_log_sum_exp_of_nothing_likely() -> None:
    assert log_sum_exp(np.array([[-np.inf, -np.inf], [-np.inf, 2.0]])).tolist() == [-np.inf, 2.0]


def test_a_softmax_over_some() -> None:
    kept = np.array([[True, False, True], [False, False, False]])
    found = masked_softmax(np.array([[1.0, np.nan, 3.0], [1.0, 2.0, 3.0]]), kept)
    np.testing.assert_allclose(found, [[*special.softmax([1.0, 3.0])[:1], 0, special.softmax([1.0, 3.0])[1]], [0] * 3])


def test_cross_entropy_is_that_of_torch() -> None:
    scores, targets = torch.randn(3, 4, 5, dtype=torch.float64), torch.randint(-1, 5, (3, 4))
    expected = functional.cross_entropy(scores.flatten(0, 1), targets.flatten(), ignore_index=-1, reduction="sum")
    assert cross_entropy(scores.numpy(), targets.numpy(), -1) == pytest.approx(float(expected), rel=1e-12)


@pytest.mark.parametrize("ids", [[[-1]], [[5]], [[0.5]], [[2**40]]])
def test_ids_that_the_model_does_not_have(ids: Any) -> None:
    with pytest.raises(ArgumentError, match="integers from 0 to 4"):
        embed(Embedding(np.zeros((5, 2)), None), np.array(ids))


WRONG: dict[str, tuple[dict[str, Any], type[Exception]]] = {
    "x too narrow": ({"x": np.zeros((3, 2, INPUT - 1))}, ShapeError),
    "x without a batch": ({"x": np.zeros((3, INPUT))}, ShapeError),
    "states of another batch": ({"states": (np.zeros((3, 4)),)}, ShapeError),
    "too few states": ({"states": ()}, ShapeError),
    "too long": ({"lengths": np.array([3, 4])}, ArgumentError),
    "negative": ({"lengths": np.array([3, -1])}, ArgumentError),
    "too few lengths": ({"lengths": np.array([3])}, ArgumentError),
    "fractions": ({"lengths": np.array([1.0, 2.0])}, ArgumentError),
}


@pytest.mark.parametrize("case", WRONG)
@pytest.mark.usefixtures("engine")
def test_nothing_that_does_not_fit_reaches_a_kernel(case: str) -> None:
    player: RecurrencePlayer = player_of(nn.Recurrent("gru", INPUT, 4)).layers[0].directions[0]
    given, error = WRONG[case]
    with pytest.raises(error):
        player.run(**{"x": np.zeros((3, 2, INPUT), np.float32), **given})
