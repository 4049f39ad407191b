"""X, in the forms that scikit-learn's users give, as sequences: texts, the rows of a table, or arrays of steps.

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
    """X, and what it is."""

    kind: Kind
    values: Any  # a list; a table is as it was given


def read_training(estimator: Any, X: Any) -> tuple[Raw, Kind]:
    """Sequences to train on; the estimator notes their features, as scikit-learn expects."""
    kind, values = sort(X)
    if kind == "table":
        table = validate_data(estimator, X=values, dtype=np.float64, ensure_min_samples=2)
        return _raw(series=list(table[:, :, None])), kind
    if len(values) < 2:
        raise ShapeError.of("X", values, f"has {len(values)} sample(s), too few to train on", "Give at least two")
    if kind == "texts":
        return _raw(texts=values), kind
    series = _series(values)
    estimator.n_features_in_ = series[0].shape[1]
    return _raw(series=series), kind


def read_new(estimator: Any, X: Any, learned: Kind) -> Raw:
    """Sequences to predict for, of the kind that the estimator was fitted on."""
    kind, values = sort(X)
    if (kind == "texts") != (learned == "texts"):
        problem = f"is {_WORDS[kind]}, and the model was fitted on {_WORDS[learned]}"
        raise ArgumentTypeError.of("X", X, problem, "Give the same kind")
    if learned == "table":
        return _read_rows(estimator, kind, values)
    if kind == "table":
        return _raw(series=list(check_array(values, dtype=np.float64)[:, :, None]))
    if not values:
        raise ShapeError.of("X", values, "has 0 sample(s)", "Give at least one")
    return _raw(texts=values) if kind == "texts" else _raw(series=_series(values))


def _read_rows(estimator: Any, kind: Kind, values: Any) -> Raw:
    """Rows of a table as sequences, for an estimator that was fitted on a table."""
    if kind == "sequences":
        values = _table(values, estimator.n_features_in_)
    table = validate_data(estimator, X=values, reset=False, dtype=np.float64)
    return _raw(series=list(table[:, :, None]))


def check_there(y: Any) -> None:
    """Refuse to train without targets."""
    if y is None:
        raise ArgumentError("fit requires y to be passed, but the target y is None. Give the target of each sample.")


_WORDS = {"texts": "texts", "table": "numbers", "sequences": "numbers"}


def sort(X: Any) -> Given:
    """What X is, by its type and its first entry."""
    if isinstance(X, str):
        raise ArgumentTypeError.of("X", X, "is one text", "Give a list of texts")
    X = _to_list(X)
    if isinstance(X, list | tuple) and not X:
        raise _no_samples(X)
    if isinstance(X, np.ndarray):
        return _sort_array(X)
    return _sort_list(X) if isinstance(X, list | tuple) else Given("table", X)


def _to_list(X: Any) -> Any:
    """A series of pandas or polars, or the only column of a frame if it holds texts, as a list."""
    columns = getattr(X, "columns", None)
    if columns is not None and len(columns) == 1:
        column = X[columns[0]]
        if len(column) and isinstance(column.to_list()[0], str):
            X = column
    return X.to_list() if hasattr(X, "to_list") else X


def _sort_array(X: NDArray[Any]) -> Given:
    if X.shape == (0,):
        raise _no_samples(X)
    if X.ndim > 3:
        problem = f"has {X.ndim} axes, and (samples, steps, features) are three"
        raise ShapeError.of("X", X.shape, problem, "Make one axis of all features: X.reshape(*X.shape[:2], -1)")
    if X.ndim == 3:
        return Given("sequences", list(X))
    return _sort_list(X.ravel().tolist()) if _is_column(X) else Given("table", X)


def _is_column(X: NDArray[Any]) -> bool:
    """Whether an array holds texts or objects: a vector of them, or a column of texts."""
    if X.dtype.kind not in "UO" or not X.size:
        return False
    return X.ndim == 1 or (X.shape[1:] == (1,) and isinstance(X.flat[0], str))


def _no_samples(X: Any) -> ArgumentError:
    return ShapeError.of("X", X, "has 0 sample(s)", "Give texts, or arrays (steps, features)")


def _sort_list(X: Any) -> Given:
    first = X[0]
    if isinstance(first, str):
        return Given("texts", _texts(X))
    # of a list of numbers scikit-learn reports what is wrong with it
    is_table = _is_table(X) if isinstance(first, list | tuple) else np.ndim(first) == 0
    return Given("table", X) if is_table else Given("sequences", list(X))


def _is_table(rows: Any) -> bool:
    """Whether all rows are equally long lists of numbers."""
    widths = {len(row) if isinstance(row, list | tuple) else -1 for row in rows}
    return len(widths) == 1 and not any(isinstance(entry, list | tuple | np.ndarray) for entry in rows[0])


def _texts(values: Any) -> list[str]:
    for row, text in enumerate(values):
        if not isinstance(text, str):
            raise ArgumentTypeError.of(f"X[{row}]", text, "is not a text, as X[0] is", "Fill it in, or leave it out")
    return [str(text) for text in values]


def _series(values: list[Any]) -> list[NDArray[np.float64]]:
    return [_steps(one, row) for row, one in enumerate(values)]


def _steps(one: Any, row: int) -> NDArray[np.float64]:
    """(steps, features)."""
    try:
        array = np.asarray(one)
    except (ValueError, TypeError, RuntimeError) as error:
        problem = f"is not an array ({error})"
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
