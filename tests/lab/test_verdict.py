"""Verdicts: decided only by numbers that decide."""

from __future__ import annotations

import math

import pytest
from scipy import stats

from unspool.lab.verdict import STUDENT, Number, above, all_of, at_least, at_most, below, interval_of
from unspool.language import Message


def test_quantiles_are_those_of_students_t() -> None:
    for degrees, quantile in enumerate(STUDENT, start=1):
        assert quantile == pytest.approx(stats.t.ppf(0.975, degrees), abs=6e-4)


def test_the_interval_is_scipys() -> None:
    values = [0.3, 0.5, 0.41, 0.44]
    expected = stats.t.interval(0.95, 3, loc=stats.tmean(values), scale=stats.sem(values))
    found = interval_of(values)
    assert (found.low, found.high) == pytest.approx(expected, rel=1e-4)


def test_many_seeds_never_narrow_the_interval_too_much() -> None:
    values = [float(value % 7) for value in range(100)]
    expected = stats.t.interval(0.95, 99, loc=stats.tmean(values), scale=stats.sem(values))
    found = interval_of(values)
    assert found.low < expected[0]
    assert found.high > expected[1]


def test_certain_numbers_are_compared() -> None:
    assert at_most("difference", 1e-12, 1e-10).outcome == "holds"
    assert at_most("difference", 1e-8, 1e-10).outcome == "does not hold"
    assert at_least("accuracy", 0.9, 0.8).outcome == "holds"
    assert at_least("accuracy", 0.7, 0.8).outcome == "does not hold"


@pytest.mark.parametrize("number", [None, math.nan, "nan"], ids=["none", "number", "text"])
def test_nan_never_holds(number: float | str | None) -> None:
    assert at_most("difference", number, 1.0).outcome == "does not hold"
    assert at_least("accuracy", number, 0.0).outcome == "does not hold"
    assert above("difference", [1.0, number, 1.0]).outcome == "not decided"


def test_infinity_is_compared() -> None:
    assert at_least("perplexity", "inf", 1e9).outcome == "holds"
    assert at_most("perplexity", "inf", 1e9).outcome == "does not hold"


def test_the_whole_interval_must_be_on_one_side() -> None:
    assert above("gain", [0.1, 0.12, 0.09]).outcome == "holds"
    assert above("gain", [-0.1, -0.12, -0.09]).outcome == "does not hold"
    assert above("gain", [0.1, -0.12, 0.09]).outcome == "not decided"
    assert below("error", [0.1, 0.12, 0.09], 0.5).outcome == "holds"
    assert below("error", [0.7, 0.72, 0.69], 0.5).outcome == "does not hold"
    assert below("error", [0.1, 0.9, 0.4], 0.5).outcome == "not decided"


def test_a_run_that_diverged_decides_nothing() -> None:
    diverged: list[list[Number]] = [[math.inf, -math.inf, 1.0], [1e200, math.nan], ["inf", 1.0]]
    for values in diverged:
        verdict = above("gain", values)
        assert verdict.outcome == "not decided"
        assert verdict.reason == "gain: a run has no finite number"


def test_huge_numbers_are_no_error() -> None:
    assert above("gain", [1e200, -1e200]).outcome == "not decided"


def test_one_seed_decides_nothing() -> None:
    assert above("gain", [5.0]).outcome == "not decided"
    assert above("gain", []).outcome == "not decided"


def test_margins_are_on_the_side_of_the_claim() -> None:
    assert at_most("difference", 0.2, 1.0).margin == pytest.approx(0.8)
    assert below("error", [0.7, 0.72], 0.5).margin == pytest.approx(-0.21)


def test_parts_are_joined_by_the_worst() -> None:
    good, bad, open_ = at_most("a", 1, 2), at_most("b", 3, 2), above("c", [1.0, -1.0])
    assert all_of(good, good).outcome == "holds"
    assert all_of(good, open_).outcome == "not decided"
    joined = all_of(good, open_, bad)
    assert joined.outcome == "does not hold"
    assert joined.reason == bad.reason


def test_a_reason_can_be_written_in_another_language() -> None:
    reason = at_most("largest difference", 1e-12, 1e-10).reason
    assert isinstance(reason, Message)
    assert reason == "largest difference: 1e-12 ≤ 1e-10"
    assert reason.template == "{what}: {value:.3g} ≤ {limit:.3g}"
    assert reason.values["what"].template == "largest difference"
