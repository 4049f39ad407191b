"""Forecaster: what comes next, of one series and of several."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from unspool.errors import ArgumentError, DataError, DTypeError, ShapeError
from unspool.estimators import Forecaster

STEPS = np.arange(160)
WAVE = np.sin(2 * np.pi * STEPS / 8) + 0.05 * np.random.default_rng(0).normal(size=160)
SMALL: dict[str, Any] = {"horizon": 4, "season": 8, "hidden": 8, "steps": 40, "random_state": 0}


def test_a_wave_continues() -> None:
    model = Forecaster(**SMALL).fit(WAVE[:140])
    truth = np.sin(2 * np.pi * STEPS[140:144] / 8)
    assert np.abs(model.predict() - truth).max() < 0.2
    quantiles = model.predict_quantiles()
    assert quantiles.shape == (4, 3)
    assert (np.diff(quantiles) > 0).all()
    assert np.array_equal(quantiles[:, 1], model.predict())
    assert np.array_equal(model.predict(WAVE[:140]), model.predict())  # the same past
    assert np.abs(model.predict(WAVE[:142]) - np.sin(2 * np.pi * STEPS[142:146] / 8)).max() < 0.2
    assert model.score(WAVE[100:]) > -0.1
    assert np.array_equal(pickle.loads(pickle.dumps(model)).predict(), model.predict())
    assert np.array_equal(clone(model).fit(WAVE[:140]).predict(), model.predict())


def test_several_series_and_several_targets_keep_their_forms_and_scales() -> None:
    model = Forecaster(**SMALL | {"steps": 4}).fit([WAVE, 1000 + 100 * WAVE[:120]])
    near, far = model.predict()
    assert near.shape == far.shape == (4,)
    assert np.abs(near).max() < 2
    assert np.abs(far - 1000).max() < 200
    both = Forecaster(**SMALL | {"steps": 4}).fit(np.stack([WAVE, 1000 + 100 * WAVE], axis=1)).predict()
    assert both.shape == (4, 2)
    assert (np.abs(both - [0, 1000]) < [2, 200]).all()
    # after four updates both forecasts are still near the last season, each in its own unit
    season = np.stack([WAVE, 1000 + 100 * WAVE], axis=1)[-8:-4]
    assert (np.abs(both - season) < [0.2, 20]).all()


@pytest.mark.parametrize(
    ("X", "error", "message"),
    [
        (np.where(STEPS == 5, np.nan, WAVE), DataError, r"`value` is nan at step 5. Fill it in"),
        (WAVE[:5], DataError, r"is too short.*Give more data"),
        (np.ones(160), DataError, "is constant.*nothing to learn"),
        (["a", "b"], DTypeError, "`X` .*does not hold numbers"),
        (np.ones((2, 2, 2)), ShapeError, r"`X` \(=\(2, 2, 2\)\) is not \(steps,\)"),
        ([WAVE, 3], ShapeError, r"`X\[1\]`"),
    ],
)
def test_series_that_cannot_be_forecast_are_refused(X: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        Forecaster(**SMALL).fit(X)


def test_other_series_than_those_learned_from_are_refused() -> None:
    with pytest.raises(NotFittedError):
        Forecaster().predict()
    with pytest.raises(ArgumentError, match=r"`horizon` \(=0\)"):
        Forecaster(horizon=0).fit(WAVE)
    model = Forecaster(**SMALL | {"steps": 1}).fit(WAVE)
    with pytest.raises(ShapeError, match=r"`X` (?s:.*)is 2 series, and the model was fitted on 1"):
        model.predict([WAVE, WAVE])
    with pytest.raises(DataError, match="Give more of its past"):
        model.predict(WAVE[:3])
