"""SequenceRegressor: numbers of sequences, one or several."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from unspool.errors import DataError
from unspool.estimators import SequenceRegressor

SMALL: dict[str, Any] = {"cell": "elman", "hidden": 16, "layers": 1, "dropout": 0.0, "lr": 0.02, "random_state": 0}


def test_sums_of_ragged_sequences_in_the_units_of_y() -> None:
    chance = np.random.default_rng(0)
    X = [chance.normal(size=(steps, 2)) for steps in chance.integers(2, 6, 300)]
    y = np.array([1000 + 100 * one[:, 0].sum() for one in X])
    model = SequenceRegressor(**SMALL, epochs=15).fit(X[:200], y[:200])
    assert model.n_features_in_ == 2
    assert model.score(X[200:], y[200:]) > 0.9
    assert model.predict(X[200:]).shape == (100,)


def test_several_numbers_at_once() -> None:
    texts = ["a" * a + "b" * b for a in range(1, 6) for b in range(1, 6)] * 3
    y = np.array([(text.count("a"), -10.0 * text.count("b")) for text in texts])
    model = SequenceRegressor(**SMALL, epochs=40).fit(texts, y)
    assert model.score(texts, y) > 0.9
    assert np.abs(model.predict(["aabbb"]) - [[2, -30]]).max() < 6
    single = SequenceRegressor(**SMALL, epochs=1).fit(texts, y[:, :1])
    assert single.predict(["ab"]).shape == (1, 1)


def test_targets_that_cannot_be_learned_are_refused() -> None:
    model = SequenceRegressor(**SMALL, epochs=1)
    with pytest.raises(DataError, match="the target `target` is 3 in all .*nothing to learn"):
        model.fit(["a", "b", "c"], [3, 3, 3])
    with pytest.raises(ValueError, match="contains NaN"):
        model.fit(["a", "b"], [3, np.nan])
    with pytest.raises(ValueError, match="dim 3"):
        model.fit(["a", "b"], np.zeros((2, 1, 1)))
