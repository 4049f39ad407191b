"""Measures against scikit-learn, hand-worked numbers and brute force; and what they refuse."""

from __future__ import annotations

import math
import time
import tracemalloc
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np
import pytest
import sklearn.metrics as oracle
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from unspool.errors import ArgumentError, ArgumentTypeError, DataError, DTypeError, ShapeError
from unspool.tasks.metrics import (
    accuracy,
    confusion,
    coverage,
    edit_distance,
    exact_match,
    macro_f1,
    mae,
    mase,
    mean_edit_distance,
    pinball,
    r_squared,
    rmse,
    span_f1,
)

unhurried = settings(deadline=None)
labels = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=1, max_size=40)
numbers = st.floats(-1e3, 1e3, allow_subnormal=False)
pairs_of_numbers = st.lists(st.tuples(numbers, numbers), min_size=1, max_size=30)


class TestClasses:
    @unhurried
    @given(labels)
    def test_as_scikit_learn(self, pairs: list[tuple[int, int]]) -> None:
        y_true, y_pred = zip(*pairs, strict=True)
        assert accuracy(y_true, y_pred) == pytest.approx(oracle.accuracy_score(y_true, y_pred), abs=1e-14)
        expected = oracle.confusion_matrix(y_true, y_pred, labels=range(8))
        np.testing.assert_array_equal(confusion(y_true, y_pred, 8), expected)
        # More classes than occur change nothing.
        assert macro_f1(y_true, y_pred, 8) == pytest.approx(oracle.f1_score(y_true, y_pred, average="macro"), abs=1e-14)

    def test_by_hand(self) -> None:
        y_true, y_pred = [0, 0, 0, 1, 1, 2], [0, 0, 1, 1, 0, 0]
        assert confusion(y_true, y_pred, 3).tolist() == [[2, 1, 0], [1, 1, 0], [1, 0, 0]]
        assert accuracy(y_true, y_pred) == 3 / 6
        assert macro_f1(y_true, y_pred, 3) == pytest.approx((4 / 7 + 2 / 4 + 0) / 3, abs=1e-15)

    def test_arrays_of_any_shape_and_kind(self) -> None:
        y_true, y_pred = np.array([[0, 1], [1, 1]], np.uint8), torch.tensor([[0, 1], [0, 1]])
        assert accuracy(y_true, y_pred) == 0.75
        assert confusion(y_true, y_pred, 2).tolist() == [[1, 0], [1, 2]]
        assert accuracy([True, False], [1, 1]) == 0.5

    def test_small_integer_types_do_not_overflow(self) -> None:
        counts = confusion(np.array([200], np.uint8), np.array([100], np.int8), 250)
        assert counts[200, 100] == counts.sum() == 1

    def test_labels_out_of_range(self) -> None:
        with pytest.raises(ArgumentError, match=r"`y_pred\[1, 0\]` \(=3\) is no class of 3. Give labels from 0 to 2"):
            confusion([[0, 1], [2, 1]], [[0, 1], [3, 1]], 3)
        with pytest.raises(ArgumentError, match=r"`y_true\[0\]` \(=-100\) is no class"):
            macro_f1([-100, 1], [0, 1], 3)

    @pytest.mark.parametrize("classes", [0, -1, 2.0, True, "two"])
    def test_what_is_no_count_of_classes(self, classes: Any) -> None:
        with pytest.raises(ArgumentError, match="`classes`.*is not a count"):
            confusion([0], [0], classes)

    def test_what_is_no_label(self) -> None:
        with pytest.raises(DTypeError, match=r"`y_pred` \(=dtype\('float64'\)\) does not hold integers"):
            accuracy([1, 2], [1.0, math.nan])
        with pytest.raises(DTypeError, match="`y_true`"):
            accuracy(["a"], ["a"])


spans = st.lists(st.tuples(st.sampled_from("xy"), st.integers(0, 3), st.integers(4, 6)), max_size=5)


class TestSpans:
    @unhurried
    @given(st.lists(st.tuples(spans, spans), min_size=1, max_size=5))
    def test_as_one_set_of_places(self, sentences: list[tuple[list[Any], list[Any]]]) -> None:
        true = {(number, span) for number, (there, _) in enumerate(sentences) for span in there}
        found = {(number, span) for number, (_, y_pred) in enumerate(sentences) for span in y_pred}
        precision = len(true & found) / len(found) if found else 0.0
        recall = len(true & found) / len(true) if true else 0.0
        f1 = 2 * precision * recall / (precision + recall) if true & found else 0.0
        score = span_f1([there for there, _ in sentences], [y_pred for _, y_pred in sentences])
        assert score == pytest.approx((precision, recall, f1), abs=1e-14)

    def test_by_hand(self) -> None:
        y_true = [[("PER", 0, 2), ("LOC", 3, 4)], [("LOC", 0, 1)], []]
        y_pred = [[("PER", 0, 2), ("ORG", 3, 4)], [], [("LOC", 0, 1)]]
        score = span_f1(y_true, y_pred)
        assert score == pytest.approx((1 / 3, 1 / 3, 1 / 3), abs=1e-15)
        assert score.precision == score.recall == score.f1

    def test_nothing_there_or_nothing_said(self) -> None:
        span = ("LOC", 0, 1)
        assert span_f1([[]], [[]]) == span_f1([[span]], [[]]) == span_f1([[]], [[span]]) == (0, 0, 0)
        assert span_f1([[span]], [[span]]) == (1, 1, 1)

    def test_what_is_refused(self) -> None:
        with pytest.raises(ShapeError, match="`y_pred`.*has 2 entries, and `y_true` 1"):
            span_f1([[]], [[], []])
        with pytest.raises(ArgumentTypeError, match="`y_pred`.*unhashable.*Give tuples"):
            span_f1([[]], [[["LOC", 0, 1]]])  # type: ignore[list-item]


class TestForecasts:
    @unhurried
    @given(pairs_of_numbers)
    def test_errors_as_scikit_learn(self, pairs: list[tuple[float, float]]) -> None:
        y_true, y_pred = zip(*pairs, strict=True)
        assert mae(y_true, y_pred) == pytest.approx(oracle.mean_absolute_error(y_true, y_pred), rel=1e-12)
        assert rmse(y_true, y_pred) == pytest.approx(oracle.root_mean_squared_error(y_true, y_pred), rel=1e-12)

    @unhurried
    @given(pairs_of_numbers.filter(lambda pairs: np.ptp([true for true, _ in pairs]) > 1e-3))
    def test_r_squared_as_scikit_learn(self, pairs: list[tuple[float, float]]) -> None:
        y_true, y_pred = zip(*pairs, strict=True)
        assert r_squared(y_true, y_pred) == pytest.approx(oracle.r2_score(y_true, y_pred), rel=1e-9, abs=1e-12)

    @pytest.mark.parametrize("y_true", [[0.1, 0.1, 0.1], [0.0, 1e-200, 0.0]])
    def test_r_squared_of_what_does_not_change(self, y_true: list[float]) -> None:
        with pytest.raises(DataError, match="`y_true` .* does not change: there is nothing to explain. Give values"):
            r_squared(y_true, [1.0, 2.0, 3.0])

    @unhurried
    @given(pairs_of_numbers, st.lists(st.floats(0.01, 0.99), min_size=1, max_size=4))
    def test_pinball_as_scikit_learn(self, pairs: list[tuple[float, float]], levels: list[float]) -> None:
        y_true, y_pred = np.array(pairs).T
        forecasts = np.stack([y_pred + 10 * level for level in levels], -1)
        each = [oracle.mean_pinball_loss(y_true, forecasts[:, i], alpha=level) for i, level in enumerate(levels)]
        assert pinball(y_true, forecasts, levels) == pytest.approx(np.mean(each), rel=1e-12)
        assert pinball(y_true[None], forecasts[None], levels) == pytest.approx(np.mean(each), rel=1e-12)

    def test_pinball_of_the_median_is_half_the_absolute_error(self) -> None:
        assert pinball([3.0, 1.0], [[1.0], [2.0]], [0.5]) == mae([3.0, 1.0], [1.0, 2.0]) / 2 == 0.75

    def test_mase_by_hand(self) -> None:
        # Differences over two steps: 2, 4, 2; over one: 1, 1, 3, −1.
        history = [1.0, 2.0, 3.0, 6.0, 5.0]
        assert mase([6.0, 8.0], [7.0, 5.0], history, season=2) == pytest.approx(2 / (8 / 3), rel=1e-15)
        assert mase([6.0, 8.0], [7.0, 5.0], history, season=1) == pytest.approx(2 / (6 / 4), rel=1e-15)

    def test_mase_of_several_series_is_the_mean_of_each(self) -> None:
        random = np.random.default_rng(0)
        y_true, y_pred = random.normal(size=(2, 3, 4))
        histories = [random.normal(size=length) for length in (5, 9, 7)]
        each = [mase(y_true[i], y_pred[i], histories[i], season=3) for i in range(3)]
        assert mase(y_true, y_pred, histories, season=3) == pytest.approx(np.mean(each), rel=1e-14)

    def test_the_naive_forecast_of_a_straight_line_has_mase_one(self) -> None:
        line = 3.0 * np.arange(20)
        assert mase(line[15:16], line[14:15], line[:15], season=1) == pytest.approx(1, rel=1e-15)
        assert mase(line[15:18], line[12:15], line[:15], season=3) == pytest.approx(1, rel=1e-15)

    def test_mase_has_a_unit_only_where_something_changes(self) -> None:
        with pytest.raises(DataError, match=r"`history\[1\]`.*is constant from season to season \(season=1\).*Leave"):
            mase([[1.0], [1.0]], [[1.0], [1.0]], [[1, 2], [4, 4]], season=1)
        with pytest.raises(DataError, match=r"constant from season to season \(season=2\)"):
            mase([1.0], [1.0], [1, 2, 1, 2], season=2)

    def test_mase_refuses_histories_that_do_not_fit(self) -> None:
        with pytest.raises(ShapeError, match=r"`history\[0\]` \(=\(2,\)\) is not .* more than one season \(2\)"):
            mase([1.0], [1.0], [1.0, 2.0], season=2)
        with pytest.raises(ShapeError, match="`history`.*has 1 entries, and `y_true` 2"):
            mase([[1.0], [1.0]], [[1.0], [1.0]], [[1.0, 2.0]], season=1)
        with pytest.raises(ArgumentTypeError, match=r"`history` \(=3.0\) is not a list"):
            mase([[1.0]], [[1.0]], 3.0, season=1)
        with pytest.raises(ArgumentError, match=r"`history\[0\]\[1\]` \(=nan\) is not a finite number"):
            mase([1.0], [1.0], [1.0, math.nan, 2.0], season=1)
        with pytest.raises(ShapeError, match="neither"):
            mase([[[1.0]]], [[[1.0]]], [[1.0, 2.0]], season=1)
        with pytest.raises(ArgumentError, match=r"`season` \(=0\) is not a count"):
            mase([1.0], [1.0], [1.0, 2.0], season=0)

    def test_coverage(self) -> None:
        assert coverage([1.0, 2.0, 3.0, 4.0], [1.0, 2.5, 2.0, 5.0], [2.0, 3.0, 3.0, 3.0]) == 0.5
        random = np.random.default_rng(0)
        y_true, low, high = random.integers(0, 9, (3, 10, 10))
        inside = sum(low[at] <= y_true[at] <= high[at] for at in np.ndindex(10, 10))
        assert coverage(y_true, low, high) == inside / 100
        with pytest.raises(ShapeError, match=r"`high` \(=\(1,\)\) is not of `y_true`'s shape \(2,\)"):
            coverage([1, 2], [1, 2], [1])

    def test_pinball_refuses(self) -> None:
        for levels in ([0.0, 0.5], [0.5, 1.0], [[0.5]], 0.5):
            with pytest.raises(ArgumentError, match="`levels`.*between 0 and 1"):
                pinball([1.0], [[1.0, 1.0]], levels)
        with pytest.raises(ShapeError, match=r"`quantile_forecasts` \(=\(2, 1\)\) is not \(1, 2\)"):
            pinball([1.0], [[1.0], [1.0]], [0.1, 0.9])


def distance_by_definition(a: Sequence[Any], b: Sequence[Any]) -> int:
    @cache
    def between(i: int, j: int) -> int:
        if not i or not j:
            return i + j
        replaced = between(i - 1, j - 1) + int(a[i - 1] != b[j - 1])
        return min(replaced, between(i - 1, j) + 1, between(i, j - 1) + 1)

    return between(len(a), len(b))


class TestSequences:
    @unhurried
    @given(st.text("abc", max_size=12), st.text("abcd", max_size=12))
    def test_distance_by_definition(self, a: str, b: str) -> None:
        assert edit_distance(a, b) == distance_by_definition(a, b)

    @unhurried
    @given(st.lists(st.integers(-2, 2), max_size=10), st.lists(st.integers(-2, 2), max_size=10))
    def test_kinds_of_sequences(self, a: list[int], b: list[int]) -> None:
        expected = distance_by_definition(a, b)
        assert edit_distance(a, tuple(b)) == expected
        assert edit_distance(np.array(a, np.int8), torch.tensor(b, dtype=torch.long)) == expected  # type: ignore[arg-type]
        assert edit_distance([str(symbol) for symbol in a], list(map(str, b))) == expected

    @pytest.mark.parametrize(
        ("a", "b", "distance"),
        [("kitten", "sitting", 3), ("", "", 0), ("", "abc", 3), ("Käse", "Kase", 1), ("ab", "ba", 2)],
    )
    def test_distance_by_hand(self, a: str, b: str, distance: int) -> None:
        assert edit_distance(a, b) == edit_distance(b, a) == distance

    def test_long_sequences(self) -> None:
        random = np.random.default_rng(0)
        a = random.permutation(10_000)
        b = np.concatenate([a[10:5000], a[5003:], -np.arange(1, 8)])
        tracemalloc.start()
        begin = time.process_time()
        # Each symbol occurs once, so what is gone is deleted and what is new inserted: far apart, neither replaces.
        assert edit_distance(a, b) == 10 + 3 + 7
        seconds, peak = time.process_time() - begin, tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert seconds < 10
        assert peak < 1000 * len(a)

    def test_means_over_pairs(self) -> None:
        y_true, y_pred = ["kitten", "abc", ""], ["sitting", "abc", "x"]
        assert mean_edit_distance(y_true, y_pred) == pytest.approx(4 / 3, rel=1e-15)
        assert exact_match(y_true, y_pred) == pytest.approx(1 / 3, rel=1e-15)
        rows = np.array([[1, 2], [3, 4]])
        assert exact_match(rows, [[1, 2], [3, 4]]) == 1  # type: ignore[arg-type]
        assert exact_match([[1, 2], [3]], [[1], [3]]) == 0.5

    def test_what_is_no_sequence(self) -> None:
        with pytest.raises(ArgumentTypeError, match=r"`b` \(=nan\) is neither a string nor"):
            edit_distance([1], [math.nan])  # type: ignore[arg-type]
        with pytest.raises(ArgumentTypeError, match=r"`a` \(=tensor\(1\)\) is neither"):
            edit_distance(list(torch.tensor([1])), [1])
        with pytest.raises(ArgumentTypeError, match=r"`a` \(=3\) is not a sequence"):
            edit_distance(3, "a")  # type: ignore[arg-type]
        with pytest.raises(ArgumentTypeError, match=r"`y_true` \(='abc'\) is not a list"):
            exact_match("abc", "abc")


def quantiles(y_true: Any, y_pred: Any) -> float:
    return pinball(y_true, np.asarray(y_pred)[..., None], [0.5])


def seasons(y_true: Any, y_pred: Any) -> float:
    return mase(y_true, y_pred, [1.0, 2.0], 1)


def intervals(y_true: Any, y_pred: Any) -> float:
    return coverage(y_true, y_pred, y_pred)


def table(y_true: Any, y_pred: Any) -> Any:
    return confusion(y_true, y_pred, 3)


class TestRefusals:
    @pytest.mark.parametrize(
        "measure",
        [accuracy, table, rmse, mae, quantiles, seasons, intervals, span_f1, exact_match, mean_edit_distance],
    )
    def test_nothing_and_unequal_lengths(self, measure: Callable[[Any, Any], Any]) -> None:
        with pytest.raises(ShapeError, match="is empty"):
            measure([], [])
        one: Any = [] if measure in (span_f1, exact_match, mean_edit_distance) else 1
        with pytest.raises(ShapeError, match="entries|shape|is not"):
            measure([one, one], [one])

    @pytest.mark.parametrize("measure", [rmse, mae, r_squared, quantiles, seasons, intervals])
    @pytest.mark.parametrize("bad", [math.nan, math.inf])
    def test_what_is_no_number(self, measure: Callable[[Any, Any], Any], bad: float) -> None:
        with pytest.raises(ArgumentError, match=rf"`y_true\[1\]` \(={bad}\) is not a finite number"):
            measure([1.0, bad], [1.0, 1.0])
        with pytest.raises(ArgumentError, match=rf"\(={bad}\) is not a finite number"):
            measure([1.0, 1.0], [1.0, bad])

    def test_what_is_no_array(self) -> None:
        with pytest.raises(ArgumentTypeError, match="`y_true`.*is not an array"):
            mae([[1.0, 2.0], [1.0]], [1.0, 2.0])
        with pytest.raises(DTypeError, match="`y_pred`.*does not hold numbers"):
            mae([1.0], ["one"])
        with pytest.raises(DTypeError, match="`y_true`.*does not hold numbers"):
            mae([None], [1.0])  # type: ignore[arg-type]
