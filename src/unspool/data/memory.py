"""Data in memory as sequences: texts, the rows of a table, arrays of steps, and series.

texts       a list, an array, or a series or a frame's only column, of strings
table       a 2-D array, a frame of numbers or a list of equally long lists: a row's columns are the steps of one
            feature
sequences   a 3-D array (samples, steps, features), or a list of arrays (steps, features) or (steps,) of any lengths
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from unspool.data.labelled import Raw
from unspool.data.series import Series
from unspool.data.times import NUMBER, TimeAxis
from unspool.errors import ArgumentError, ArgumentTypeError, DTypeError, ShapeError

Kind = Literal["texts", "table", "sequences"]
#: The axis of series that come without times: their steps are counted.
COUNTED = TimeAxis(NUMBER, "fixed", 1)


class Given(NamedTuple):
    """Data, and what it is."""

    kind: Kind
    values: Any  # a list; a table is as it was given


def read_examples(examples: Any, name: str = "examples") -> Raw:
    """Texts, or sequences of numbers, that are not encoded yet.

    Args:
        examples: Texts, a table or sequences; a row of a table is a sequence of one feature.
        name: What messages call them.

    Example:
        >>> read_examples(["play jazz", "stop"]).texts
        ['play jazz', 'stop']
    """
    kind, values = sort(check_list(examples, name, "Give a list of texts, or of arrays (steps, features)"), name)
    if kind == "texts":
        return make_raw(texts=values, name=name)
    rows = values if isinstance(values, list | tuple) else list(np.asarray(values))
    return make_raw(series=read_steps(rows, name), name=name)


def check_list(given: Any, name: str, remedy: str) -> Any:
    """What is given, if it is a list, a tuple, an array, a series or a frame; anything else is refused.

    Example:
        >>> check_list([1.0, 2.0], "targets", "Give one per example")
        [1.0, 2.0]
    """
    is_array = hasattr(given, "__array__") and len(getattr(given, "shape", (1,))) > 0
    if not is_array and not isinstance(given, list | tuple):
        raise ArgumentTypeError.of(name, given, f"is of type {type(given).__name__}, not a list", remedy)
    return given


def sort(X: Any, name: str = "X") -> Given:
    """What X is, by its type and its first entry.

    Args:
        X: Texts, a table of numbers, or sequences.
        name: What messages call it.
    """
    if isinstance(X, str):
        raise ArgumentTypeError.of(name, X, "is one text", "Give a list of texts")
    X = _to_list(X)
    if isinstance(X, list | tuple) and not X:
        raise _no_samples(X, name)
    if isinstance(X, np.ndarray):
        return _sort_array(X, name)
    return _sort_list(X, name) if isinstance(X, list | tuple) else Given("table", X)


def _to_list(X: Any) -> Any:
    """A series of pandas or polars, or the only column of a frame if it holds texts, as a list."""
    columns = getattr(X, "columns", None)
    if columns is not None and len(columns) == 1:
        column = X[columns[0]]
        if len(column) and isinstance(column.to_list()[0], str):
            X = column
    return X.to_list() if hasattr(X, "to_list") else X


def _sort_array(X: NDArray[Any], name: str) -> Given:
    if X.shape == (0,):
        raise _no_samples(X, name)
    if X.ndim > 3:
        problem = f"has {X.ndim} axes, and (samples, steps, features) are three"
        raise ShapeError.of(
            name, X.shape, problem, f"Make one axis of all features: {name}.reshape(*{name}.shape[:2], -1)"
        )
    if X.ndim == 3:
        return Given("sequences", list(X))
    return _sort_list(X.ravel().tolist(), name) if _is_column(X) else Given("table", X)


def _is_column(X: NDArray[Any]) -> bool:
    """Whether an array holds texts or objects: a vector of them, or a column of texts."""
    if X.dtype.kind not in "UO" or not X.size:
        return False
    return X.ndim == 1 or (X.shape[1:] == (1,) and isinstance(X.flat[0], str))


def _no_samples(X: Any, name: str) -> ArgumentError:
    return ShapeError.of(name, X, "has 0 sample(s)", "Give texts, or arrays (steps, features)")


def _sort_list(X: Any, name: str) -> Given:
    first = X[0]
    if isinstance(first, str):
        return Given("texts", _texts(X, name))
    # of a list of numbers scikit-learn reports what is wrong with it
    is_table = _is_table(X) if isinstance(first, list | tuple) else np.ndim(first) == 0
    return Given("table", X) if is_table else Given("sequences", list(X))


def _is_table(rows: Any) -> bool:
    """Whether all rows are equally long lists of numbers."""
    widths = {len(row) if isinstance(row, list | tuple) else -1 for row in rows}
    return len(widths) == 1 and not any(isinstance(entry, list | tuple | np.ndarray) for entry in rows[0])


def _texts(values: Any, name: str) -> list[str]:
    for row, text in enumerate(values):
        if not isinstance(text, str):
            raise ArgumentTypeError.of(
                f"{name}[{row}]", text, f"is not a text, as {name}[0] is", "Fill it in, or leave it out"
            )
    return [str(text) for text in values]


def read_steps(values: Sequence[Any], name: str = "X") -> list[NDArray[np.float64]]:
    """Sequences of numbers, each as an array (steps, features)."""
    return [_steps(one, f"{name}[{row}]") for row, one in enumerate(values)]


def _steps(one: Any, name: str) -> NDArray[np.float64]:
    """(steps, features)."""
    try:
        array = np.asarray(one)
    except (ValueError, TypeError, RuntimeError) as error:
        problem = f"is not an array ({error})"
        raise ArgumentTypeError.of(name, one, problem, "Give an array (steps, features)") from error
    if array.dtype.kind not in "biuf":
        raise DTypeError.of(name, array.dtype, "does not hold numbers", "Give an array (steps, features)")
    if array.ndim not in (1, 2):
        raise ShapeError.of(name, array.shape, "is not (steps, features) or (steps,)", "Reshape it")
    return (array[:, None] if array.ndim == 1 else array).astype(np.float64)


def make_raw(texts: list[str] | None = None, series: list[NDArray[np.float64]] | None = None, name: str = "X") -> Raw:
    """Texts, or arrays (steps, features), that are not encoded yet; messages call them `name` and their number."""
    count = len(texts if texts is not None else series or ())
    return Raw(texts, series, [str(row) for row in range(count)], f"{name}[{{}}]".format, None)


def read_arrays(X: Any, name: str = "X") -> tuple[bool, list[NDArray[np.float64]]]:
    """Whether X is a list of series, not one series, and the arrays (steps,) or (steps, targets) of all.

    Example:
        >>> read_arrays([1.0, 2.0])
        (False, [array([1., 2.])])
    """
    several = isinstance(X, list | tuple) and len(X) > 0 and np.ndim(X[0]) > 0
    return several, [
        read_array(one, f"{name}[{row}]" if several else name) for row, one in enumerate(X if several else [X])
    ]


def read_array(given: Any, name: str) -> NDArray[np.float64]:
    """One series of numbers, (steps,) or (steps, targets)."""
    try:
        array: NDArray[Any] = np.asarray(given)
    except (ValueError, TypeError) as error:
        raise ArgumentTypeError.of(name, given, f"is not an array ({error})", "Give an array (steps,)") from error
    if array.dtype.kind not in "biuf":
        raise DTypeError.of(name, array.dtype, "does not hold numbers", "Give an array (steps,) of numbers")
    if array.ndim not in (1, 2) or len(array) < 2:
        raise ShapeError.of(name, array.shape, "is not (steps,) or (steps, targets)", "Give at least two steps")
    return array.astype(np.float64)


def count_steps(name: str, array: NDArray[np.float64]) -> Series:
    """A series without times and covariates: its steps are counted from 0.

    Args:
        name: Of the series.
        array: (steps,) or (steps, targets).
    """
    nothing = np.empty((len(array), 0))
    return Series(name, COUNTED, np.arange(len(array)), array.reshape(len(array), -1), nothing, nothing)
