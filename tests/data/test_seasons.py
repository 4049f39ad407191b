"""Seasons of series whose season is known: by the calendar, and by their autocorrelation."""

from __future__ import annotations

import numpy as np
import pytest
from statsmodels.datasets import co2, sunspots

from unspool.data.seasons import guess_season
from unspool.data.times import TimeAxis
from unspool.errors import DataError

SUNSPOTS = sunspots.load_pandas().data["SUNACTIVITY"].to_numpy()
CO2 = co2.load_pandas().data["co2"].resample("MS").mean().interpolate().to_numpy()


def test_sunspots() -> None:
    assert guess_season(SUNSPOTS, TimeAxis("year", "year", 1)) == guess_season(SUNSPOTS) == 11


@pytest.mark.parametrize(
    ("unit", "count", "season"),
    [("month", 1, 12), ("month", 3, 4), ("day", 1, 7), ("day", 7, 52), ("hour", 1, 24), ("hour", 6, 4)],
)
def test_the_calendar(unit: str, count: int, season: int) -> None:
    axis = TimeAxis("%Y-%m-%d", unit, count)
    assert guess_season(np.zeros((60, 1)), axis) == season
    assert guess_season(np.zeros(season - 1), axis) == 1


@pytest.mark.parametrize("season", [2, 5, 12, 37])
def test_waves_on_a_slope(season: int) -> None:
    step = np.arange(400)
    noise = np.random.default_rng(season).normal(size=400)
    assert guess_season(np.cos(2 * np.pi * step / season) + 0.05 * step + 0.3 * noise) == season


def test_co2_without_its_calendar() -> None:
    assert guess_season(np.diff(CO2)) == 12


def test_none() -> None:
    assert guess_season(np.arange(50.0)) == guess_season(np.ones(50)) == guess_season([1.0, 2.0]) == 1


def test_what_cannot_be_measured_is_refused() -> None:
    for values in ([], [1.0, np.nan], 3.0, [1e200, 1.0]):
        with pytest.raises(DataError, match="the history is empty, or has NaN"):
            guess_season(values)
