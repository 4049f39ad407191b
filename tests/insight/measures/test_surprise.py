"""Surprise against perplexity, a uniform model, and the order of reading."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional

from unspool.errors import ArgumentError, ShapeError
from unspool.insight.measures.surprise import measure_surprise

TOKENS = [["a", "d"], ["b", "e"], ["c", "padding"]]
NATS = [[1.0, 4.0], [2.0, 5.0], [3.0, 99.0]]
LIVE = np.array([[True, True], [True, True], [True, False]])


def test_rows_are_read_one_after_another() -> None:
    found = measure_surprise(TOKENS, NATS, LIVE)
    assert found.tokens == ("a", "b", "c", "d", "e")
    assert found.nats.tolist() == [1, 2, 3, 4, 5]
    assert found.mean == 3
    assert found.worst == (4, 3, 2, 1, 0)
    assert found.by_position.tolist() == [2.5, 3.5, 3]
    assert measure_surprise(TOKENS, NATS).mean == 19


def test_of_a_model() -> None:
    """exp of the mean is the perplexity; of a uniform model that is the number of words."""
    logits = torch.randn(6, 3, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    truth = torch.randint(8, (6, 3), generator=torch.Generator().manual_seed(1))
    tokens = [[str(one) for one in step] for step in truth.tolist()]
    for scores in (logits, torch.zeros_like(logits)):
        nats = -scores.log_softmax(-1).gather(-1, truth.unsqueeze(-1)).squeeze(-1)
        found = measure_surprise(tokens, nats.numpy())
        assert found.mean == pytest.approx(functional.cross_entropy(scores.flatten(0, 1), truth.flatten()).item())
        assert len(found.worst) == 10
        assert [found.nats[place] for place in found.worst] == sorted(found.nats, reverse=True)[:10]
        np.testing.assert_allclose(found.by_position, nats.mean(1).numpy())
    assert math.exp(found.mean) == pytest.approx(8)


def test_what_was_impossible_and_what_is_not_there() -> None:
    found = measure_surprise(
        [["a"], ["b"], ["c"]], [[1.0], [math.inf], [math.nan]], np.array([[True], [True], [False]])
    )
    assert found.worst == (1, 0)
    assert found.mean == math.inf
    assert found.by_position[:2].tolist() == [1, math.inf]
    assert math.isnan(found.by_position[2])
    empty = measure_surprise([["a"]], [[1.0]], np.array([[False]]))
    assert (empty.tokens, empty.worst, empty.nats.tolist()) == ((), (), [])
    assert math.isnan(empty.mean)


@pytest.mark.parametrize(
    ("tokens", "nats", "live", "error"),
    [
        (TOKENS[:2], NATS, LIVE, ShapeError),
        ([["a"], ["b"], ["c"]], NATS, LIVE, ShapeError),
        (TOKENS, [1.0, 2.0], None, ShapeError),
        (TOKENS, NATS, LIVE.T, ShapeError),
        (TOKENS, [[1.0, 2.0], [math.nan, 1.0], [1.0, 1.0]], LIVE, ArgumentError),
    ],
)
def test_what_does_not_fit_is_refused(tokens: Any, nats: Any, live: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match="Give|Look"):
        measure_surprise(tokens, nats, live)
