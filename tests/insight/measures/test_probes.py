"""Linear probes: scikit-learn as the oracle, folds by group, shuffled labels, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, Ridge

from unspool.errors import ArgumentError, ShapeError
from unspool.insight.measures.probes import fit_classes, fit_numbers, measure_probe

RANDOM = np.random.default_rng(0)
STATES = RANDOM.normal(size=(150, 4))
KINDS = (STATES[:, :2] @ [1.0, 2.0] + 0.5 * RANDOM.normal(size=150) > 0).astype(int) + (STATES[:, 3] > 1)


def test_classes_are_fitted_as_scikit_learn_does() -> None:
    weights, bias = fit_classes(STATES, KINDS, 3, penalty=2.0)
    twin = LogisticRegression(C=0.5, tol=1e-10, max_iter=10_000).fit(STATES, KINDS)
    np.testing.assert_allclose(weights.T - weights.T.mean(0), twin.coef_ - twin.coef_.mean(0), atol=1e-4)
    np.testing.assert_allclose(bias - bias.mean(), twin.intercept_ - twin.intercept_.mean(), atol=1e-4)


def test_numbers_are_fitted_as_scikit_learn_does() -> None:
    y = STATES @ [1.0, 0, -2, 0.5] + 3 + RANDOM.normal(size=150)
    weights, bias = fit_numbers(STATES, y, penalty=5.0)
    twin = Ridge(alpha=5.0).fit(STATES, y)
    np.testing.assert_allclose(weights[:, 0], twin.coef_, rtol=1e-9)
    assert bias[0] == pytest.approx(twin.intercept_)


def test_a_label_in_the_states_is_found_and_one_by_chance_is_not() -> None:
    found = measure_probe(STATES, KINDS, shuffles=5)
    assert found.kind == "classes"
    assert found.classes == ("0", "1", "2")
    assert found.score > found.limit + 0.2
    assert found.shuffled < found.baseline + 0.05
    assert found.confusion.sum() == 150
    assert found.score == pytest.approx(np.trace(found.confusion) / 150)
    assert (found.weights.T.shape, found.bias.shape) == ((3, 4), (3,))
    chance = measure_probe(STATES, RANDOM.permutation(KINDS), shuffles=20)
    assert chance.score < found.score - 0.2


def test_weights_are_for_states_as_they_are() -> None:
    moved = STATES * [1, 10, 100, 0.1] + 5
    found = measure_probe(moved, (STATES[:, 0] > 0).astype(str), shuffles=1)
    read = (moved @ found.weights + found.bias).argmax(1)
    assert (read == (STATES[:, 0] > 0)).mean() > 0.95


def test_numbers_have_r_squared() -> None:
    found = measure_probe(STATES, STATES @ [1.0, 2, 0, 0], shuffles=3)
    assert found.kind == "numbers"
    assert found.score > 0.98
    assert found.shuffled < 0.1
    assert found.confusion.shape == (0, 0)


def test_groups_are_on_one_side_only() -> None:
    """A state that tells the group, and a label that is drawn per group: only rows of the same group give it away."""
    groups = np.repeat(np.arange(30), 8)
    states = np.eye(30)[groups] + 0.01 * RANDOM.normal(size=(240, 30))
    labels = RANDOM.integers(0, 2, 30)[groups]
    assert measure_probe(states, labels, shuffles=1).score > 0.95
    apart = measure_probe(states, labels, groups, shuffles=20)
    assert apart.score < 0.8
    assert apart.limit > 0.5  # shuffled by group, so that chance is as lucky as the labels


@pytest.mark.parametrize(
    ("change", "error", "says"),
    [
        ({"labels": KINDS[:3]}, ShapeError, "one label for each of 150"),
        ({"labels": np.zeros(150, int)}, ArgumentError, "only one class"),
        ({"labels": np.full(150, np.nan)}, ArgumentError, "NaN"),
        ({"states": STATES[0]}, ShapeError, "one row of states"),
        ({"states": STATES * np.nan}, ArgumentError, "NaN"),
        ({"groups": [1, 2]}, ShapeError, "one group for each"),
        ({"groups": np.zeros(150)}, ArgumentError, "more than the 1 groups"),
        ({"penalty": 0.0}, ArgumentError, "penalty"),
        ({"folds": 1}, ArgumentError, "folds"),
    ],
)
def test_bad_input_is_refused(change: dict[str, Any], error: type[Exception], says: str) -> None:
    given: dict[str, Any] = {"states": STATES, "labels": KINDS, "shuffles": 1} | change
    with pytest.raises(error, match=says):
        measure_probe(**given)
