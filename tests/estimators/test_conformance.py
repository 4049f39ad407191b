"""scikit-learn's own checks of what an estimator must do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sklearn.utils.estimator_checks import parametrize_with_checks

from unspool.estimators import SequenceClassifier, SequenceRegressor

#: A model that learns the checks' small tables in about a second; no check is left out.
SMALL: dict[str, Any] = {
    **{"cell": "elman", "hidden": 16, "layers": 1, "bidirectional": False, "pooling": "last", "dropout": 0.0},
    **{"epochs": 12, "batch": 16, "rate": 0.02},
}


@parametrize_with_checks([SequenceClassifier(**SMALL), SequenceRegressor(**SMALL)])  # type: ignore[untyped-decorator]
def test_it_is_an_estimator(estimator: Any, check: Callable[[Any], None]) -> None:
    check(estimator)
