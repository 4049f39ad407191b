"""The metrics of tasks, of classes, spans, forecasts and sequences: each is one number from `y_true` and `y_pred`.

Every metric refuses empty input, unequal shapes and values that are not numbers: a mean over nothing or over NaN would
look like a result.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence, Sized
from itertools import starmap
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unspool.errors import ArgumentError, ArgumentTypeError, DataError, DTypeError, ShapeError

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]
#: Text, or symbols that are strings or integers: a list, a tuple, an array or a tensor.
Symbols = Sequence[str] | Sequence[int] | NDArray[np.integer[Any]]


class SpanScore(NamedTuple):
    """How well spans are found."""

    precision: float
    recall: float
    f1: float


def accuracy(y_true: ArrayLike, y_pred: ArrayLike) -> float:
    """The fraction of labels, integers in arrays of one shape, that are predicted correctly.

    Example:
        accuracy([0, 1, 2], [0, 1, 1])  # 0.667
    """
    true, predicted = _labels("y_true", y_true), _labels("y_pred", y_pred)
    _same_shape(true, "y_pred", predicted)
    return float((true == predicted).mean())


def confusion(y_true: ArrayLike, y_pred: ArrayLike, classes: int) -> Counts:
    """How often class i (row) is predicted as class j (column), for labels from 0 to `classes` − 1."""
    _at_least_one("classes", classes)
    true, predicted = _labels("y_true", y_true), _labels("y_pred", y_pred)
    _same_shape(true, "y_pred", predicted)
    for name, labels in (("y_true", true), ("y_pred", predicted)):
        wrong = (labels < 0) | (labels >= classes)
        _refuse_first(name, labels, wrong, f"is no class of {classes}", f"Give labels from 0 to {classes - 1}")
    pairs = true.astype(np.int64).ravel() * classes + predicted.astype(np.int64).ravel()
    return np.bincount(pairs, minlength=classes * classes).reshape(classes, classes)


def macro_f1(y_true: ArrayLike, y_pred: ArrayLike, classes: int) -> float:
    """The mean F1 of the classes; those that occur neither in `y_true` nor in `y_pred` do not count."""
    counts = confusion(y_true, y_pred, classes)
    occurrences = counts.sum(0) + counts.sum(1)
    occurring = occurrences > 0
    return float((2 * counts.diagonal()[occurring] / occurrences[occurring]).mean())


def span_f1(y_true: Sequence[Iterable[Hashable]], y_pred: Sequence[Iterable[Hashable]]) -> SpanScore:
    """Precision, recall and F1 of the spans of all sentences together; a span counts if all of it is right.

    A ratio with a denominator of 0 is 0, as in conlleval: precision where no span is predicted, recall where there is
    none, and all three where there are neither. A span that one sentence lists twice counts once.

    Example:
        span_f1([[("name", 0, 2)]], [[("name", 0, 2), ("place", 3, 4)]]).precision  # 0.5
    """
    _paired(y_true, y_pred, "sentence")
    pairs = [
        (_span_set("y_true", true), _span_set("y_pred", predicted))
        for true, predicted in zip(y_true, y_pred, strict=True)
    ]
    right = sum(len(true & predicted) for true, predicted in pairs)
    there = sum(len(true) for true, _ in pairs)
    found = sum(len(predicted) for _, predicted in pairs)
    return SpanScore(_ratio(right, found), _ratio(right, there), _ratio(2 * right, there + found))


def label_set_scores(y_true: Sequence[Iterable[str]], y_pred: Sequence[Iterable[str]]) -> dict[str, float]:
    """Sets of labels: F1 over all labels together (micro) and as the mean over labels (macro), and exact matches.

    Example:
        label_set_scores([{"a", "b"}, {"b"}], [{"a"}, {"b"}])["micro-F1"]  # 0.8
    """
    _paired(y_true, y_pred, "examples")
    pairs = [(set(true), set(predicted)) for true, predicted in zip(y_true, y_pred, strict=True)]
    return {
        **_set_f1(pairs),
        "exact match": float(np.mean([true == predicted for true, predicted in pairs])),
    }


def _set_f1(pairs: Sequence[tuple[set[str], set[str]]]) -> dict[str, float]:
    hits = Counter(label for true, predicted in pairs for label in true & predicted)
    counts = Counter(label for pair in pairs for own in pair for label in own)
    each = [_ratio(2 * hits[label], count) for label, count in counts.items()]
    return {
        "micro-F1": _ratio(2 * hits.total(), counts.total()),
        "macro-F1": float(np.mean(each)) if each else 0.0,
    }


def _span_set(name: str, sentence: Iterable[Hashable]) -> set[Hashable]:
    try:
        return set(sentence)
    except TypeError as error:
        raise ArgumentTypeError.of(
            name, sentence, f"is not a list of spans ({error})", "Give tuples or Span"
        ) from error


def rmse(y_true: ArrayLike, y_pred: ArrayLike) -> float:
    """The root mean squared error."""
    return float(np.sqrt(np.square(_errors(y_true, y_pred)).mean()))


def mae(y_true: ArrayLike, y_pred: ArrayLike) -> float:
    """The mean absolute error."""
    return float(np.abs(_errors(y_true, y_pred)).mean())


def r_squared(y_true: ArrayLike, y_pred: ArrayLike) -> float:
    """1 − Σ (y_true − y_pred)² / Σ (y_true − mean)²: 1 is without error, 0 no better than the mean."""
    errors, true = _errors(y_true, y_pred), _numbers("y_true", y_true)
    spread = float(np.square(true - true.mean()).sum())
    if true.max() == true.min() or not spread:
        raise DataError.of("y_true", y_true, "does not change: there is nothing to explain", "Give values that differ")
    return 1.0 - float(np.square(errors).sum()) / spread


def mase(y_true: ArrayLike, y_pred: ArrayLike, history: ArrayLike | Sequence[ArrayLike], season: int) -> float:
    """The mean absolute scaled error: below 1 is better than the seasonal naive forecast.

    The unit of a series is the mean |y[t] − y[t − season]| over its `history`, which is known before the forecast.

    Args:
        y_true: One series (steps), or several (series, steps).
        y_pred: Their forecasts.
        history: The past of the series, or a list with that of each, of any lengths.
        season: Steps per season.

    Returns:
        The mean over the series.
    """
    _at_least_one("season", season)
    errors = _errors(y_true, y_pred)
    if errors.ndim not in (1, 2):
        raise ShapeError.of("y_true", errors.shape, "is neither (steps) nor (series, steps)", "Reshape it")
    histories: Any = [history] if errors.ndim == 1 else history
    rows = np.atleast_2d(errors)
    _paired(rows, histories, "series", "history")
    scales = [_seasonal_scale(series, season, number) for number, series in enumerate(histories)]
    return float((np.abs(rows).mean(1) / scales).mean())


def _seasonal_scale(history: ArrayLike, season: int, number: int) -> float:
    name = f"history[{number}]"
    past = _numbers(name, history)
    if past.ndim != 1 or len(past) <= season:
        raise ShapeError.of(
            name, past.shape, f"is not a series of more than one season ({season})", "Give a longer past, of one axis"
        )
    scale = float(np.abs(past[season:] - past[:-season]).mean())
    if not scale:
        problem = f"is constant from season to season (season={season}), so that its errors have no unit"
        raise DataError.of(name, past, problem, "Leave the series out")
    return scale


def pinball(y_true: ArrayLike, quantile_forecasts: ArrayLike, levels: ArrayLike) -> float:
    """The mean quantile loss max(q e, (q − 1) e) with e = y_true − forecast, over all values and all levels q.

    Args:
        y_true: Values of any shape.
        quantile_forecasts: One axis more than `y_true`, its last: one forecast for each of `levels`.
        levels: Quantiles between 0 and 1.
    """
    true, forecasts = _numbers("y_true", y_true), _numbers("quantile_forecasts", quantile_forecasts)
    q = _numbers("levels", levels)
    if q.ndim != 1 or not ((q > 0) & (q < 1)).all():
        raise ArgumentError.of(
            "levels", levels, "is not a list of numbers between 0 and 1", "Give, for example, [0.1, 0.5, 0.9]"
        )
    if forecasts.shape != (*true.shape, len(q)):
        raise ShapeError.of(
            "quantile_forecasts", forecasts.shape, f"is not {(*true.shape, len(q))}", "Give a forecast for each level"
        )
    e = true[..., None] - forecasts
    return float(np.maximum(q * e, (q - 1) * e).mean())


def coverage(y_true: ArrayLike, low: ArrayLike, high: ArrayLike) -> float:
    """The fraction of values within [low, high], ends included; where low is above high, nothing is within."""
    true, lowest, highest = _numbers("y_true", y_true), _numbers("low", low), _numbers("high", high)
    _same_shape(true, "low", lowest)
    _same_shape(true, "high", highest)
    return float(((lowest <= true) & (true <= highest)).mean())


def exact_match(y_true: Sequence[Symbols], y_pred: Sequence[Symbols]) -> float:
    """The fraction of sequences that are predicted without a mistake."""
    _paired(y_true, y_pred, "sequence")
    pairs = zip(y_true, y_pred, strict=True)
    return float(np.mean([_symbols("y_true", true) == _symbols("y_pred", predicted) for true, predicted in pairs]))


def mean_edit_distance(y_true: Sequence[Symbols], y_pred: Sequence[Symbols]) -> float:
    """The mean of `edit_distance` over pairs of sequences, in symbols."""
    _paired(y_true, y_pred, "sequence")
    return float(np.mean(list(starmap(edit_distance, zip(y_true, y_pred, strict=True)))))


def edit_distance(a: Symbols, b: Symbols) -> int:
    """The Levenshtein distance: how many symbols to insert, delete or replace to turn `a` into `b`.

    Example:
        edit_distance("kitten", "sitting")  # 3
    """
    shorter, longer = sorted((_symbols("a", a), _symbols("b", b)), key=len)
    numbers: dict[str | int, int] = {}
    text = np.array([numbers.setdefault(symbol, len(numbers)) for symbol in longer], np.int64)
    # row[j] is the distance to the first j symbols of the longer one, less j: an insertion then costs nothing, and the
    # step along the row, which each entry would have to wait for, is a running minimum.
    row = np.zeros(len(longer) + 1, np.int64)
    for count, symbol in enumerate(shorter, 1):
        row[1:] = np.minimum(row[1:] + 1, row[:-1] - (text == numbers.get(symbol, -1)))
        row[0] = count
        row = np.minimum.accumulate(row)
    return int(row[-1]) + len(longer)


def _symbols(name: str, sequence: Symbols) -> list[str | int]:
    """A list of plain strings and integers; other objects may compare by identity, and would never be equal."""
    symbols = sequence.tolist() if hasattr(sequence, "tolist") else sequence
    if not isinstance(symbols, Iterable):
        raise ArgumentTypeError.of(name, sequence, "is not a sequence", "Give text, or a list of strings or integers")
    listed = list(symbols)
    for symbol in listed:
        if not isinstance(symbol, str | int | np.integer):
            raise ArgumentTypeError.of(
                name, symbol, "is neither a string nor an integer", "Give text, or a list of strings or integers"
            )
    return listed


def _paired(y_true: Sized, y_pred: Sized, what: str, name: str = "y_pred") -> None:
    for argument, several in (("y_true", y_true), (name, y_pred)):
        if isinstance(several, str) or not isinstance(several, Sized):
            raise ArgumentTypeError.of(argument, several, "is not a list", f"Give a list with an entry for each {what}")
    if len(y_true) != len(y_pred):
        raise ShapeError.of(
            name, y_pred, f"has {len(y_pred)} entries, and `y_true` {len(y_true)}", f"Give one for each {what}"
        )
    if not len(y_true):
        raise ShapeError.of("y_true", y_true, "is empty", f"Give at least one {what}")


def _same_shape(y_true: NDArray[Any], name: str, other: NDArray[Any]) -> None:
    if y_true.shape != other.shape:
        raise ShapeError.of(
            name, other.shape, f"is not of `y_true`'s shape {y_true.shape}", "Give one prediction per true value"
        )


def _errors(y_true: ArrayLike, y_pred: ArrayLike) -> Floats:
    true, predicted = _numbers("y_true", y_true), _numbers("y_pred", y_pred)
    _same_shape(true, "y_pred", predicted)
    return true - predicted


def _numbers(name: str, values: ArrayLike) -> Floats:
    numbers = _array(name, values, "biuf", "numbers").astype(np.float64)
    _refuse_first(name, numbers, ~np.isfinite(numbers), "is not a finite number", "Leave such values out")
    return numbers


def _labels(name: str, values: ArrayLike) -> NDArray[np.integer[Any]]:
    return _array(name, values, "biu", "integers")


def _array(name: str, values: ArrayLike, kinds: str, what: str) -> NDArray[Any]:
    try:
        array = np.asarray(values)
    except (ValueError, TypeError, RuntimeError) as error:
        raise ArgumentTypeError.of(name, values, f"is not an array ({error})", f"Give an array of {what}") from error
    if not array.size:
        raise ShapeError.of(name, array.shape, "is empty", "Give at least one value")
    if array.dtype.kind not in kinds:
        raise DTypeError.of(name, array.dtype, f"does not hold {what}", f"Give an array of {what}")
    return array


def _refuse_first(name: str, values: NDArray[Any], wrong: NDArray[np.bool_], problem: str, remedy: str) -> None:
    if wrong.any():
        place = tuple(map(int, np.argwhere(wrong)[0]))
        raise ArgumentError.of(f"{name}[{', '.join(map(str, place))}]", values[place].item(), problem, remedy)


def _at_least_one(name: str, value: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
        raise ArgumentError.of(name, value, "is not a count", "Give an integer of at least 1")


def _ratio(part: int, whole: int) -> float:
    return part / whole if whole else 0.0


def spell_metric(value: float) -> str:
    """Four decimals; a number of examples has none."""
    return f"{value:,}" if isinstance(value, int) else f"{value:.4f}"
