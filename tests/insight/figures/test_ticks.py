"""Ticks of logarithmic axes: at round numbers, enough to tell the scale, few enough to be read."""

from __future__ import annotations

import numpy as np
import pytest

from unspool.insight.figures.canvas import canvas, log_axis
from unspool.insight.figures.ticks import choose_ticks, log_ticks, powers


@pytest.mark.parametrize(
    ("low", "high", "most", "names"),
    [
        (1e-9, 1, 4, ["10<sup>-9</sup>", "10<sup>-6</sup>", "0.001", "1"]),
        (1e-12, 1e3, 6, ["10<sup>-12</sup>", "10<sup>-9</sup>", "10<sup>-6</sup>", "0.001", "1", "1000"]),
        (0.0001258925, 0.0630957, 4, ["3·10<sup>-4</sup>", "0.001", "0.003", "0.01", "0.03"]),
        (1, 10, 6, ["1", "2", "5", "10"]),
        (5, 20, 6, ["5", "10", "20"]),
        (0.2, 0.5, 6, ["0.2", "0.3", "0.4", "0.5"]),
        (1.234, 1.239, 6, ["1.234", "1.236", "1.238"]),
        (3.9810717e-5, 6.3095734e-5, 4, ["4·10<sup>-5</sup>", "5·10<sup>-5</sup>", "6·10<sup>-5</sup>"]),
    ],
)
def test_round_numbers(low: float, high: float, most: int, names: list[str]) -> None:
    found = powers(np.log10([low, high]), most)
    assert found["ticktext"] == names
    axis = log_ticks(np.log10(low), np.log10(high), most)
    np.testing.assert_allclose(np.log10(axis["tickvals"]), found["tickvals"], atol=1e-5)


def test_any_range_has_three_to_seven_ticks_within_it() -> None:
    random = np.random.default_rng(0)
    for _ in range(500):
        low = random.uniform(-14, 3)
        high = low + 10 ** random.uniform(-1.5, 1.2)
        ticks = choose_ticks(low, high)
        assert 3 <= len(ticks) <= 7, (low, high, ticks)
        assert low - 0.01 <= min(ticks) < max(ticks) <= high + 0.01
        assert len(set(powers([low, high])["ticktext"])) == len(ticks)


def test_without_numbers_the_axis_has_no_ticks_of_ours() -> None:
    figure = canvas("empty")
    log_axis(figure, "y", [np.nan])
    assert figure.layout.yaxis.type == "log"
    assert figure.layout.yaxis.tickvals is None
    assert powers([]) == {}
