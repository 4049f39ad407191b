"""Reports: ratios, means, aims, and the way to JSON and back."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from tests.benchmarks.example import report, row

from unspool.errors import ArgumentError
from unspool.lab.bench.cases import Point
from unspool.lab.bench.linear import fit_exponent, fit_line
from unspool.lab.bench.report import Finding, Report, Row, compare, geometric_mean
from unspool.lab.bench.settings import Settings


def test_a_ratio_is_the_quotient_of_medians() -> None:
    one = row("A", unspool=0.4, torch=1.0)
    assert one.ratio("torch") == 1.0 / 0.4
    assert one.ratio("unspool", of="torch") == 0.4


def test_rate_and_part_of_the_machines() -> None:
    one = row("A", unspool=1.6)
    assert one.rate() == pytest.approx(5e9)
    assert one.fraction == pytest.approx(0.5)
    assert Row("grid", "training", "A", one.values).fraction is None


def test_the_best_is_the_fastest_that_took_part() -> None:
    one = row("A", unspool=1.0, torch=4.0, jax=2.0)
    assert one.best(("torch", "jax", "onnxruntime")) == "jax"
    assert one.best(("onnxruntime",)) is None


def test_geometric_mean() -> None:
    assert geometric_mean([2.0, 0.5]) == pytest.approx(1.0, rel=1e-15)
    values = np.random.default_rng(0).uniform(0.1, 10, 18)
    assert geometric_mean(values.tolist()) == pytest.approx(values.prod() ** (1 / 18), rel=1e-12)


def test_comparison_takes_the_fastest_at_each_point() -> None:
    mean, worst = report().findings
    assert mean.value == pytest.approx(math.sqrt(2.0 * 0.5))
    assert (worst.value, worst.where) == (0.5, "B")
    assert (mean.met, worst.met) == (False, True)
    assert compare([row("A", unspool=1.0)], ("torch",), "text", None, None) == []


@pytest.mark.parametrize(
    ("aim", "at_least", "met"),
    [(None, True, None), (2.0, True, True), (2.1, True, False), (2.0, False, True), (1.9, False, False)],
)
def test_aims(aim: float | None, at_least: bool, met: bool | None) -> None:
    assert Finding("q", "text", 2.0, aim=aim, at_least=at_least).met is met


def test_json_and_back() -> None:
    first = report()
    assert Report.from_json(first.to_json()) == first


def test_json_says_what_follows() -> None:
    document = json.loads(report().to_json())
    assert document["schema"] == 1
    assert set(document) == {"schema", "machine", "settings", "rows", "findings", "remarks"}
    assert document["rows"][0]["ratios"] == {"torch": 4.0, "jax": 2.0}
    assert document["rows"][0]["values"]["jax"] == {"median": 2.0, "low": 1.8, "high": 2.4, "count": 3}
    assert document["rows"][0]["fraction_of_machine_rate"] == pytest.approx(0.8)
    assert [found["met"] for found in document["findings"]] == [False, True]


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"schema": 2}', '{"schema": 1, "rows": [{}]}', '{"schema": 1, "rows": 3}']
)
def test_what_is_no_report_is_refused(text: str) -> None:
    with pytest.raises(ArgumentError):
        Report.from_json(text)


def test_a_line_is_found() -> None:
    T = np.array([100.0, 1000.0, 20_000.0])
    a, b = fit_line(T, 0.003 + 2e-5 * T)
    assert (a, b) == pytest.approx((0.003, 2e-5), rel=1e-9)


def test_an_exponent_is_found() -> None:
    T = np.array([100.0, 200.0, 1000.0, 20_000.0])
    assert fit_exponent(T, 0.1 * T**1.3) == pytest.approx(1.3, rel=1e-12)


def test_sizes_are_read() -> None:
    assert Point.parse("32, 100,64,128") == Point(32, 100, 64, 128)
    assert str(Point(1, 2, 3, 4)) == "1,2,3,4"
    for text in ("", "1,2,3", "1,2,3,x", "1,2,3,0", "1,2,3,-4", "1,2,3,4,5"):
        with pytest.raises(ArgumentError, match="four sizes"):
            Point.parse(text)


@pytest.mark.parametrize("options", [{"threads": 0}, {"rounds": 0}, {"against": ("tensorflow",)}, {"cells": ("lstn",)}])
def test_wrong_settings_are_refused(options: dict[str, object]) -> None:
    with pytest.raises(ArgumentError):
        Settings(**options)  # type: ignore[arg-type]
