"""Scale: against scikit-learn's; numbers that cannot be scaled; JSON."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from sklearn.preprocessing import StandardScaler

from unspool.data.scale import Scale
from unspool.errors import DataError, ShapeError


def test_as_scikit_learn_has_it() -> None:
    values = np.random.default_rng(0).normal([3, -200, 0], [2, 50, 1e-9], (40, 3))
    scale, theirs = Scale.of(values), StandardScaler().fit(values)
    np.testing.assert_allclose(scale.apply(values), theirs.transform(values), rtol=1e-6, atol=1e-7)
    scaled = theirs.transform(values)
    np.testing.assert_allclose(scale.undo(scaled), values, rtol=1e-12)


def test_equal_numbers_are_only_shifted() -> None:
    values = np.full((3, 1), 0.1)
    assert values.std() > 0  # by rounding
    scale = Scale.of(values)
    assert scale.deviation.tolist() == [1.0]
    np.testing.assert_allclose(scale.apply(np.array([[0.3]])), [[0.2]], rtol=1e-6)


def test_numbers_whose_squares_are_no_numbers() -> None:
    with pytest.raises(DataError, match=r"numbers such as 1e\+300 are too large to be averaged. Divide them"):
        Scale.of(np.array([[1e300], [0.0]]))
    assert Scale.of(np.array([[1e-300], [2e-300]])).deviation.tolist() == [5e-301]


def test_some_columns_alone() -> None:
    values = np.random.default_rng(0).normal([3, -200, 0], [2, 50, 1e-9], (40, 3))
    scale, theirs = Scale.of(values), StandardScaler().fit(values)
    found = scale.standardize(values[:, 1:], slice(1, None))
    np.testing.assert_allclose(found, theirs.transform(values)[:, 1:], rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(scale.undo(theirs.transform(values)[None, :, :2]), values[None, :, :2], rtol=1e-12)
    with pytest.raises(ShapeError, match=r"`values` \(=\(40, 4\)\) does not have 3 columns at most"):
        scale.undo(np.zeros((40, 4)))
    with pytest.raises(ShapeError, match="does not have 3 columns"):
        scale.undo(1.0)


def test_whose_numbers_are_too_large_is_said() -> None:
    with pytest.raises(DataError, match="^rain: numbers such as 1e\\+300 are too large"):
        Scale.of(np.array([[1e300], [0.0]]), "rain")


@pytest.mark.parametrize("columns", [2, None])
def test_json_there_and_back(columns: int | None) -> None:
    scale = Scale.of(np.random.default_rng(1).normal(size=(9, 2)))
    again = Scale.load(json.loads(json.dumps(scale.dump())), columns)
    assert (again.mean.tolist(), again.deviation.tolist()) == (scale.mean.tolist(), scale.deviation.tolist())


@pytest.mark.parametrize(
    "wrong",
    [
        {},
        {"mean": [0.0], "deviation": "a"},
        {"mean": [0.0], "deviation": [0.0]},
        {"mean": [0.0, 1.0], "deviation": [1.0]},
        {"mean": [0.0, 1.0], "deviation": [1.0, 1.0]},
        {"mean": [float("nan")], "deviation": [1.0]},
    ],
    ids=repr,
)
def test_json_that_is_no_scale(wrong: Any) -> None:
    with pytest.raises(DataError, match="`mean` and `deviation`.*the run's own"):
        Scale.load(wrong, 1)


@pytest.mark.parametrize(
    "wrong",
    [[], {"mean": 1, "deviation": 1}, {"mean": [], "deviation": []}, {"mean": [1, 2], "deviation": [1]}],
    ids=repr,
)
def test_json_that_is_no_scale_of_any_width(wrong: Any) -> None:
    with pytest.raises(DataError, match="`mean` and `deviation`.*the run's own"):
        Scale.load(wrong)
