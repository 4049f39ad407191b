"""The measures that tasks report: of classes, spans, forecasts and sequences, each one number from truth and answer.

`truth` is what was so, `said` what a model answered. Every measure refuses empty input, unequal shapes and values that
are not numbers: a mean over nothing or over NaN would look like a result.
"""

from __future__ import annotations

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
    """How well spans were found."""

    precision: float
    recall: float
    f1: float


def accuracy(truth: ArrayLike, said: ArrayLike) -> float:
    """The share of labels, which are integers in arrays of any one shape, that were said rightly."""
    true, answer = _labels("truth", truth), _labels("said", said)
    _same_shape(true, "said", answer)
    return float((true == answer).mean())


def confusion(truth: ArrayLike, said: ArrayLike, classes: int) -> Counts:
    """How often class i (row) was called class j (column), for labels from 0 to `classes` − 1."""
    _at_least_one("classes", classes)
    true, answer = _labels("truth", truth), _labels("said", said)
    _same_shape(true, "said", answer)
    for name, labels in (("truth", true), ("said", answer)):
        wrong = (labels < 0) | (labels >= classes)
        _refuse_first(name, labels, wrong, f"is no class of {classes}", f"Give labels from 0 to {classes - 1}")
    pairs = true.astype(np.int64).ravel() * classes + answer.astype(np.int64).ravel()
    return np.bincount(pairs, minlength=classes * classes).reshape(classes, classes)


def macro_f1(truth: ArrayLike, said: ArrayLike, classes: int) -> float:
    """The mean of the classes' F1; classes that occur neither in truth nor in the answers do not count."""
    counts = confusion(truth, said, classes)
    occurrences = counts.sum(0) + counts.sum(1)
    occurring = occurrences > 0
    return float((2 * counts.diagonal()[occurring] / occurrences[occurring]).mean())


def span_f1(truth: Sequence[Iterable[Hashable]], said: Sequence[Iterable[Hashable]]) -> SpanScore:
    """Precision, recall and F1 of the spans of all sentences together; a span counts if all of it is right.

    A ratio with nothing below the line is 0, as conlleval has it: precision where no span was said, recall where there
    is none, and all three where there are neither. A span that one sentence lists twice counts once.
    """
    _paired(truth, said, "sentence")
    pairs = [(_span_set("truth", true), _span_set("said", answer)) for true, answer in zip(truth, said, strict=True)]
    right = sum(len(true & answer) for true, answer in pairs)
    there = sum(len(true) for true, _ in pairs)
    found = sum(len(answer) for _, answer in pairs)
    return SpanScore(_ratio(right, found), _ratio(right, there), _ratio(2 * right, there + found))


def _span_set(name: str, sentence: Iterable[Hashable]) -> set[Hashable]:
    try:
        return set(sentence)
    except TypeError as error:
        raise ArgumentTypeError.of(name, sentence, f"is no list of spans ({error})", "Give tuples or Span") from error


def rmse(truth: ArrayLike, said: ArrayLike) -> float:
    """The root of the mean squared error."""
    return float(np.sqrt(np.square(_errors(truth, said)).mean()))


def mae(truth: ArrayLike, said: ArrayLike) -> float:
    """The mean absolute error."""
    return float(np.abs(_errors(truth, said)).mean())


def r_squared(truth: ArrayLike, said: ArrayLike) -> float:
    """1 − Σ (truth − said)² / Σ (truth − mean)²: 1 is without error, 0 no better than the mean of what was so."""
    errors, true = _errors(truth, said), _numbers("truth", truth)
    spread = float(np.square(true - true.mean()).sum())
    if true.max() == true.min() or not spread:
        raise DataError.of("truth", truth, "does not change: there is nothing to explain", "Give values that differ")
    return 1.0 - float(np.square(errors).sum()) / spread


def mase(truth: ArrayLike, said: ArrayLike, history: ArrayLike | Sequence[ArrayLike], season: int) -> float:
    """The mean absolute error in units of the naive forecast's: below 1 beats "as it was one season ago".

    A series' unit is the mean |y[t] − y[t − season]| over its own `history`, what was known before the forecast. One
    series is `truth` (steps), `history` (past steps); several are (series, steps) and as many histories, of any
    lengths, and the measure is the mean over the series.
    """
    _at_least_one("season", season)
    errors = _errors(truth, said)
    if errors.ndim not in (1, 2):
        raise ShapeError.of("truth", errors.shape, "is neither (steps) nor (series, steps)", "Reshape it")
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


def pinball(truth: ArrayLike, quantile_forecasts: ArrayLike, levels: ArrayLike) -> float:
    """The mean quantile loss max(q e, (q − 1) e) with e = truth − forecast, over all values and all levels q.

    `quantile_forecasts` has one axis more than `truth`, its last: one forecast for each of `levels`.
    """
    true, forecasts = _numbers("truth", truth), _numbers("quantile_forecasts", quantile_forecasts)
    q = _numbers("levels", levels)
    if q.ndim != 1 or not ((q > 0) & (q < 1)).all():
        raise ArgumentError.of(
            "levels", levels, "is no list of numbers between 0 and 1", "Give such as [0.1, 0.5, 0.9]"
        )
    if forecasts.shape != (*true.shape, len(q)):
        raise ShapeError.of(
            "quantile_forecasts", forecasts.shape, f"is not {(*true.shape, len(q))}", "Give a forecast for each level"
        )
    e = true[..., None] - forecasts
    return float(np.maximum(q * e, (q - 1) * e).mean())


def coverage(truth: ArrayLike, low: ArrayLike, high: ArrayLike) -> float:
    """The share of values within [low, high], ends included; where low lies above high, nothing is within."""
    true, lowest, highest = _numbers("truth", truth), _numbers("low", low), _numbers("high", high)
    _same_shape(true, "low", lowest)
    _same_shape(true, "high", highest)
    return float(((lowest <= true) & (true <= highest)).mean())


def exact_match(truth: Sequence[Symbols], said: Sequence[Symbols]) -> float:
    """The share of sequences that were said without a mistake."""
    _paired(truth, said, "sequence")
    pairs = zip(truth, said, strict=True)
    return float(np.mean([_symbols("truth", true) == _symbols("said", answer) for true, answer in pairs]))


def mean_edit_distance(truth: Sequence[Symbols], said: Sequence[Symbols]) -> float:
    """The mean of `edit_distance` over pairs of sequences, in symbols."""
    _paired(truth, said, "sequence")
    return float(np.mean(list(starmap(edit_distance, zip(truth, said, strict=True)))))


def edit_distance(a: Symbols, b: Symbols) -> int:
    """Levenshtein's distance: how many symbols to insert, delete or replace to make `b` of `a`. Either may be empty."""
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
    """A list of plain strings and integers; other things may compare by identity, and would never be equal."""
    symbols = sequence.tolist() if hasattr(sequence, "tolist") else sequence
    if not isinstance(symbols, Iterable):
        raise ArgumentTypeError.of(name, sequence, "is not a sequence", "Give text, or a list of strings or integers")
    listed = list(symbols)
    for symbol in listed:
        if not isinstance(symbol, str | int | np.integer):
            raise ArgumentTypeError.of(
                name, symbol, "is a symbol that is neither a string nor an integer", "Give text, or a list of such"
            )
    return listed


def _paired(truth: Sized, said: Sized, what: str, name: str = "said") -> None:
    for argument, several in (("truth", truth), (name, said)):
        if isinstance(several, str) or not isinstance(several, Sized):
            raise ArgumentTypeError.of(argument, several, "is not a list", f"Give a list with an entry for each {what}")
    if len(truth) != len(said):
        raise ShapeError.of(
            name, said, f"has {len(said)} entries, and `truth` {len(truth)}", f"Give one for each {what}"
        )
    if not len(truth):
        raise ShapeError.of("truth", truth, "is empty", f"Give at least one {what}")


def _same_shape(truth: NDArray[Any], name: str, other: NDArray[Any]) -> None:
    if truth.shape != other.shape:
        raise ShapeError.of(
            name, other.shape, f"is not of `truth`'s shape {truth.shape}", "Give one for each true value"
        )


def _errors(truth: ArrayLike, said: ArrayLike) -> Floats:
    true, answer = _numbers("truth", truth), _numbers("said", said)
    _same_shape(true, "said", answer)
    return true - answer


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
