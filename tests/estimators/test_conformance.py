"""scikit-learn's own checks of what an estimator must do."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.utils import estimator_checks
from sklearn.utils.estimator_checks import parametrize_with_checks

from unspool.estimators import SequenceClassifier, SequenceRegressor

#: A model that learns the checks' small tables in about a second; no check is left out.
SMALL: dict[str, Any] = {
    **{"cell": "elman", "hidden": 16, "layers": 1, "bidirectional": False, "pooling": "last", "dropout": 0.0},
    **{"epochs": 12, "batch_size": 16, "lr": 0.02},
}


@parametrize_with_checks([SequenceClassifier(**SMALL), SequenceRegressor(**SMALL)])  # type: ignore[untyped-decorator]
def test_it_is_an_estimator(estimator: Any, check: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    if check.func.__name__ == "check_methods_subset_invariance":
        # It compares predictions of one row in batches of different sizes, to 1e-7. Ours are computed in float32, and
        # the order of a sum depends on the batch: some processors differ by two units in the last place.
        monkeypatch.setattr(estimator_checks, "assert_allclose", close_in_float32)
    check(estimator)


def close_in_float32(found: Any, expected: Any, atol: float, err_msg: str) -> None:
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=10 * atol, err_msg=err_msg)
