"""Numbers as people read them, and columns by the cells that characters take."""

from __future__ import annotations

import math

from tests.cli.made_up import INF, NAN

from unspool.cli.formatting import align, decimal, duration, flow, metric, short, speed


def test_figures() -> None:
    assert [duration(s) for s in (0, 48.4, 72, 3600, 7325, 90061, NAN, INF, -3)] == [
        *("0:00", "0:48", "1:12", "1:00:00", "2:02:05", "1 d 1:01:01", "?", "?", "0:00")
    ]
    assert [decimal(v) for v in (1.8734, 0.0, 0.01, 0.0012345, 123456.0, NAN, INF, -INF, None)] == [
        *("1.873", "0.000", "0.010", "0.00123", "1.23e+05", "NaN", "∞", "−∞", "–")
    ]
    assert [short(v) for v in (0.002, 1e-5, 12.345, NAN)] == ["0.002", "1e-05", "12.3", "NaN"]
    assert [speed(v, "words") for v in (24310.2, 9.87, NAN)] == ["24,310 words/s", "9.9 words/s", "NaN words/s"]
    values = (1.0, 6.686, 12345.2, math.exp(50), math.inf, NAN, None)
    assert [metric("perplexity", v) for v in values] == ["1.00", "6.69", "12,345", "5.18e+21", "∞", "NaN", "–"]
    assert metric("accuracy", 0.98123) == "0.981"


def test_columns_are_aligned_by_cells() -> None:
    assert align([["名字", "loss"], ["a", "10.5"], ["模型二", "1"]], left=1) == [
        *("名字    loss", "a       10.5", "模型二     1")
    ]
    assert flow(["aa", "bb", "cc"], 7) == ["aa · bb", "cc"]
    assert flow(["红楼", "梦", "x"], 9) == ["红楼 · 梦", "x"]


def test_a_number_of_examples_has_no_decimals() -> None:
    assert metric("examples", 1234) == "1,234"
    assert metric("accuracy", 1.0) == "1.000"
    assert metric("examples", None) == "–"
