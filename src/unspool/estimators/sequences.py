"""X, in the forms that scikit-learn's users give, as sequences: texts, the rows of a table, or arrays of steps.

texts       a list, an array, or a series or a frame's only column, of strings
table       a 2-D array, a frame of numbers or a list of equally long lists: a row's columns are the steps of one
            feature, and all rows that the model will ever see have as many
sequences   a 3-D array (samples, steps, features), or a list of arrays (steps, features) or (steps,) of any lengths
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_array, validate_data

from unspool.data.labelled import Raw
from unspool.data.memory import Kind, make_raw, read_steps, sort
from unspool.errors import ArgumentError, ArgumentTypeError, ShapeError


def read_training(estimator: Any, X: Any) -> tuple[Raw, Kind]:
    """Sequences to train on; the estimator notes their features, as scikit-learn expects."""
    kind, values = sort(X)
    if kind == "table":
        table = validate_data(estimator, X=values, dtype=np.float64, ensure_min_samples=2)
        return make_raw(series=list(table[:, :, None])), kind
    if len(values) < 2:
        raise ShapeError.of("X", values, f"has {len(values)} sample(s), too few to train on", "Give at least two")
    if kind == "texts":
        return make_raw(texts=values), kind
    series = read_steps(values)
    estimator.n_features_in_ = series[0].shape[1]
    return make_raw(series=series), kind


def read_new(estimator: Any, X: Any, learned: Kind) -> Raw:
    """Sequences to predict for, of the kind that the estimator was fitted on."""
    kind, values = sort(X)
    if (kind == "texts") != (learned == "texts"):
        problem = f"is {_WORDS[kind]}, and the model was fitted on {_WORDS[learned]}"
        raise ArgumentTypeError.of("X", X, problem, "Give the same kind")
    if learned == "table":
        return _read_rows(estimator, kind, values)
    if kind == "table":
        return make_raw(series=list(check_array(values, dtype=np.float64)[:, :, None]))
    if not values:
        raise ShapeError.of("X", values, "has 0 sample(s)", "Give at least one")
    return make_raw(texts=values) if kind == "texts" else make_raw(series=read_steps(values))


def _read_rows(estimator: Any, kind: Kind, values: Any) -> Raw:
    """Rows of a table as sequences, for an estimator that was fitted on a table."""
    if kind == "sequences":
        values = _table(values, estimator.n_features_in_)
    table = validate_data(estimator, X=values, reset=False, dtype=np.float64)
    return make_raw(series=list(table[:, :, None]))


def check_there(y: Any) -> None:
    """Refuse to train without targets."""
    if y is None:
        raise ArgumentError("fit requires y to be passed, but the target y is None. Give the target of each sample.")


_WORDS = {"texts": "texts", "table": "numbers", "sequences": "numbers"}


def _table(values: list[Any], columns: int) -> NDArray[np.float64]:
    """Sequences as rows, where the model was fitted on rows."""
    series = read_steps(values)
    for row, one in enumerate(series):
        if one.shape != (columns, 1):
            problem = f"is not ({columns},), as the rows that the model was fitted on"
            raise ShapeError.of(f"X[{row}]", one.shape, problem, "Fit it on a list of arrays to read other lengths")
    return np.stack(series)[:, :, 0]
