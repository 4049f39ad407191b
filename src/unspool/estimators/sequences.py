"""What scikit-learn's users give as X, as sequences: texts, a table whose rows are sequences, or arrays of steps.

texts       a list, an array, or a series or a frame's only column, of strings
table       a 2-D array, a frame of numbers or a list of equally long lists: a row's columns are the steps of one
            feature, and all rows that the model will ever see have as many
sequences   a 3-D array (samples, steps, features), or a list of arrays (steps, features) or (steps,) of any lengths
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_array, validate_data

from unspool.data.labelled import Raw
from unspool.errors import ArgumentError, ArgumentTypeError, DTypeError, ShapeError

Kind = Literal["texts", "table", "sequences"]


class Given(NamedTuple):
    """X, sorted by what it is."""

    kind: Kind
    values: Any  # a list, but of a table, which is as it was given


def read_training(estimator: Any, X: Any) -> tuple[Raw, Kind]:
    """Sequences to learn from; the estimator takes note of their features as scikit-learn has it."""
    kind, values = sort(X)
    if kind == "table":
        table = validate_data(estimator, X=values, dtype=np.float64, ensure_min_samples=2)
        return _raw(series=list(table[:, :, None])), kind
    if len(values) < 2:
        raise ShapeError.of("X", values, f"has {len(values)} sample(s), too few to learn from", "Give two at least")
    if kind == "texts":
        return _raw(texts=values), kind
    series = _series(values)
    estimator.n_features_in_ = series[0].shape[1]
    return _raw(series=series), kind


def read_new(estimator: Any, X: Any, learned: Kind) -> Raw:
    """Sequences to speak of, which must be such as the estimator has `learned` from."""
    kind, values = sort(X)
    if (kind == "texts") != (learned == "texts"):
        problem = f"is {_WORDS[kind]}, and the model was fitted on {_WORDS[learned]}"
        raise ArgumentTypeError.of("X", X, problem, "Give such as it was fitted on")
    if learned == "table":
        if kind == "sequences":
            values = _table(values, estimator.n_features_in_)
        table = validate_data(estimator, X=values, reset=False, dtype=np.float64)
        return _raw(series=list(table[:, :, None]))
    if kind == "table":
        return _raw(series=list(check_array(values, dtype=np.float64)[:, :, None]))
    if not values:
        raise ShapeError.of("X", values, "has 0 sample(s)", "Give one at least")
    return _raw(texts=values) if kind == "texts" else _raw(series=_series(values))


def check_there(y: Any) -> None:
    """Refuse to learn without a teacher."""
    if y is None:
        raise ArgumentError("fit requires y to be passed, but the target y is None. Give what is right of each sample.")


_WORDS = {"texts": "texts", "table": "numbers", "sequences": "numbers"}


def sort(X: Any) -> Given:
    """What X is, by its type and its first entry."""
    if isinstance(X, str):
        raise ArgumentTypeError.of("X", X, "is one text", "Give a list of texts")
    columns = getattr(X, "columns", None)
    if columns is not None and len(columns) == 1 and isinstance(_first(X[columns[0]]), str):
        X = X[columns[0]]
    if hasattr(X, "to_list"):  # a series of pandas or polars
        X = X.to_list()
    if X.shape == (0,) if isinstance(X, np.ndarray) else isinstance(X, list | tuple) and not X:
        raise ShapeError.of("X", X, "has 0 sample(s)", "Give texts, or arrays (steps, features)")
    if isinstance(X, np.ndarray):
        if X.ndim > 3:
            problem = f"has {X.ndim} axes, and (samples, steps, features) are three"
            raise ShapeError.of("X", X.shape, problem, "Make one axis of all features: X.reshape(*X.shape[:2], -1)")
        if X.ndim == 3:
            return Given("sequences", list(X))
        if X.dtype.kind in "UO" and X.size and (X.ndim == 1 or X.shape[1:] == (1,)):
            X = X.ravel().tolist() if isinstance(X.flat[0], str) or X.ndim == 1 else X
    if not isinstance(X, list | tuple):
        return Given("table", X)
    first = X[0]
    if isinstance(first, str):
        return Given("texts", _texts(X))
    if isinstance(first, list | tuple) and _is_table(X):
        return Given("table", X)
    if not isinstance(first, list | tuple) and np.ndim(first) == 0:
        return Given("table", X)  # scikit-learn says what is wrong with it
    return Given("sequences", list(X))


def _first(column: Any) -> Any:
    return column.to_list()[0] if len(column) else None


def _is_table(rows: Any) -> bool:
    """Whether all rows are equally long lists of numbers."""
    widths = {len(row) if isinstance(row, list | tuple) else -1 for row in rows}
    return len(widths) == 1 and not any(isinstance(entry, list | tuple | np.ndarray) for entry in rows[0])


def _texts(values: Any) -> list[str]:
    for row, text in enumerate(values):
        if not isinstance(text, str):
            raise ArgumentTypeError.of(f"X[{row}]", text, "is no text, as X[0] is", "Fill it in, or leave it out")
    return [str(text) for text in values]


def _series(values: list[Any]) -> list[NDArray[np.float64]]:
    return [_steps(one, row) for row, one in enumerate(values)]


def _steps(one: Any, row: int) -> NDArray[np.float64]:
    """(steps, features)."""
    try:
        array = np.asarray(one)
    except (ValueError, TypeError, RuntimeError) as error:
        problem = f"is no array ({error})"
        raise ArgumentTypeError.of(f"X[{row}]", one, problem, "Give an array (steps, features)") from error
    if array.dtype.kind not in "biuf":
        raise DTypeError.of(f"X[{row}]", array.dtype, "does not hold numbers", "Give an array (steps, features)")
    if array.ndim not in (1, 2):
        raise ShapeError.of(f"X[{row}]", array.shape, "is not (steps, features) or (steps,)", "Reshape it")
    return (array[:, None] if array.ndim == 1 else array).astype(np.float64)


def _table(values: list[Any], columns: int) -> NDArray[np.float64]:
    """Sequences as rows, where the model was fitted on rows."""
    series = _series(values)
    for row, one in enumerate(series):
        if one.shape != (columns, 1):
            problem = f"is not ({columns},), as the rows that the model was fitted on"
            raise ShapeError.of(f"X[{row}]", one.shape, problem, "Fit it on a list of arrays to read other lengths")
    return np.stack(series)[:, :, 0]


def _raw(texts: list[str] | None = None, series: list[NDArray[np.float64]] | None = None) -> Raw:
    count = len(texts if texts is not None else series or ())
    return Raw(texts, series, [str(row) for row in range(count)], "X[{}]".format, None)
