"""The optimal depth against a search over the trade-off itself."""

from __future__ import annotations

import math

import numpy as np
import pytest

from unspool.errors import ArgumentError
from unspool.insight.measures.depth import optimal_depth


@pytest.mark.parametrize(("gain", "kept"), [(1.0, 0.9), (0.5, 0.95), (2.0, 0.7), (0.1, 0.2), (3.0, 0.999)])
def test_the_optimum_is_where_a_search_finds_it(gain: float, kept: float) -> None:
    best = optimal_depth(gain, kept)
    assert best == pytest.approx(math.log(1 - gain / math.log(kept)) / gain, rel=1e-12)
    depths = np.linspace(0, 4 * best, 400_001)
    trade_off = (1 - np.exp(-gain * depths)) * kept**depths
    assert depths[trade_off.argmax()] == pytest.approx(best, abs=1e-4 * best)


def test_depth_without_cost_has_no_optimum() -> None:
    assert optimal_depth(1.0, 1.0) == math.inf


@pytest.mark.parametrize(
    ("gain", "kept"), [(0.0, 0.9), (-1.0, 0.9), (math.nan, 0.9), (math.inf, 0.9), (1.0, 0.0), (1.0, 1.1)]
)
def test_wrong_arguments_are_refused(gain: float, kept: float) -> None:
    with pytest.raises(ArgumentError, match="Give"):
        optimal_depth(gain, kept)
