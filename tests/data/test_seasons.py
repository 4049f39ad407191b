"""Seasons of series whose season is known, none where there is none, and what follows for horizon and look-back."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from scipy.signal import lfilter
from statsmodels.datasets import co2, sunspots

from unspool.data.seasons import calendar_seasons, guess_horizon, guess_lookback, guess_order, guess_season
from unspool.data.times import DAY, HOUR, TimeAxis
from unspool.errors import DataError

Chance = np.random.Generator
SUNSPOTS = sunspots.load_pandas().data["SUNACTIVITY"].to_numpy()
CO2 = co2.load_pandas().data["co2"].resample("MS").mean().interpolate().to_numpy()
MONTHS, DAYS = TimeAxis("%Y-%m", "month", 1), TimeAxis("%Y-%m-%d", "day", 1)


def chain(*coefficients: float) -> Callable[[int, Chance], np.ndarray]:
    """An autoregression."""

    def simulate(steps: int, chance: Chance) -> np.ndarray:
        found: np.ndarray = lfilter([1.0], [1.0, *(-one for one in coefficients)], chance.normal(size=steps + 300))[
            300:
        ]
        return found

    return simulate


#: Noise without a season. The last two autoregressions have a spectral peak, but forget their phase within a cycle.
NOISE: dict[str, Callable[[int, Chance], np.ndarray]] = {
    "white": lambda steps, chance: chance.normal(size=steps),
    "AR(1) 0.5": chain(0.5),
    "AR(1) 0.9": chain(0.9),
    "AR(1) 0.99": chain(0.99),
    "AR(1) -0.8": chain(-0.8),
    "AR(2) of real roots": chain(1.2, -0.35),
    "AR(2) that damps": chain(0.5, -0.3),
    "AR(2) that damps less": chain(1.0, -0.5),
    "random walk": lambda steps, chance: chance.normal(size=steps).cumsum(),
    "random walk and noise": lambda steps, chance: chance.normal(size=steps).cumsum() + 5 * chance.normal(size=steps),
    "line": lambda steps, chance: 0.05 * np.arange(steps) + chance.normal(size=steps),
    "growth": lambda steps, chance: np.exp(np.arange(steps) * 5 / steps) + chance.normal(size=steps),
    "level shift": lambda steps, chance: 5.0 * (np.arange(steps) > 0.4 * steps) + chance.normal(size=steps),
    "heavy tails": lambda steps, chance: chance.standard_t(2, size=steps),
}


def false_alarms(name: str, steps: int, count: int, axis: TimeAxis | None = None) -> int:
    return sum(guess_season(NOISE[name](steps, np.random.default_rng(seed)), axis) > 1 for seed in range(count))


class TestNone:
    # At a rate of 5 %, 60 series would have more than 6 false alarms with a probability of 3 %. The rate is 1 to 3 %.
    @pytest.mark.parametrize("name", NOISE)
    def test_false_alarms(self, name: str) -> None:
        assert false_alarms(name, 120, 60) <= 6

    @pytest.mark.parametrize("name", ["white", "AR(1) 0.9", "random walk"])
    def test_false_alarms_where_the_calendar_suggests_seasons(self, name: str) -> None:
        assert false_alarms(name, 120, 60, DAYS) <= 6

    @pytest.mark.long
    @pytest.mark.parametrize("name", NOISE)
    @pytest.mark.parametrize("steps", [60, 300, 2000])
    def test_the_rate_of_false_alarms(self, name: str, steps: int) -> None:
        assert false_alarms(name, steps, 200) <= 0.05 * 200

    def test_a_long_chain_has_no_season(self) -> None:
        for seed in range(3):
            assert guess_season(chain(0.97)(2000, np.random.default_rng(seed))) == 1

    def test_what_has_no_noise(self) -> None:
        for values in (np.arange(50.0), np.ones(50), [1.0, 2.0], np.exp(np.arange(200) / 40), np.log1p(np.arange(200))):
            assert guess_season(values) == 1


class TestFound:
    def test_sunspots(self) -> None:
        assert guess_season(SUNSPOTS, TimeAxis("year", "year", 1)) == guess_season(SUNSPOTS) == 11

    def test_a_cycle_whose_phase_drifts(self) -> None:
        found = []
        for seed in range(10):
            chance = np.random.default_rng(seed)
            phase = np.cumsum(2 * np.pi / 11 + 0.1 * chance.normal(size=300))
            found.append(guess_season(np.sin(phase) + 0.3 * chance.normal(size=300)))
        assert found.count(11) + found.count(10) + found.count(12) == 10
        assert found.count(11) >= 7

    @pytest.mark.parametrize("season", [2, 5, 12, 37])
    @pytest.mark.parametrize("size", [1.0, 0.25])
    def test_waves_on_a_slope(self, season: int, size: float) -> None:
        step = np.arange(400)
        noise = np.random.default_rng(season).normal(size=400)
        assert guess_season(size * np.cos(2 * np.pi * step / season) + 0.05 * step + 0.3 * noise) == season

    def test_co2_with_and_without_its_calendar(self) -> None:
        for axis in (MONTHS, None):
            assert guess_season(CO2, axis) == guess_season(CO2[-60:], axis) == guess_season(np.diff(CO2), axis) == 12

    def test_a_week_beside_a_random_walk(self) -> None:
        chance = np.random.default_rng(1)
        values = np.tile([5.0, 5, 5, 5, 6, 9, 8], 30) + chance.normal(size=210).cumsum()
        assert guess_season(values, DAYS) == guess_season(values) == 7

    @pytest.mark.parametrize("season", [7, 30, 52])
    def test_a_pattern_of_which_no_wave_is_strong(self, season: int) -> None:
        for seed in range(5):
            chance = np.random.default_rng(seed)
            values = np.tile(chance.normal(size=season), 720 // season) + 0.0
            assert guess_season(values + 0.3 * chance.normal(size=len(values))) == season

    def test_what_has_no_noise(self) -> None:
        assert guess_season([1, 5, 2] * 8) == 3
        assert guess_season(np.tile([0.0, 1.0], 20)) == 2
        assert guess_season(np.sin(2 * np.pi * np.arange(400) / 37) + 0.1 * np.arange(400)) == 37

    @pytest.mark.parametrize(("minutes", "season", "days"), [(30, 48, 14), (15, 96, 8), (1, 1440, 5)])
    def test_steps_below_an_hour(self, minutes: int, season: int, days: int) -> None:
        step = np.arange(days * season)
        values = np.sin(2 * np.pi * step / season) + np.random.default_rng(0).normal(size=len(step))
        assert guess_season(values, TimeAxis("%H:%M", "fixed", minutes * HOUR // 60)) == season


@pytest.mark.parametrize(
    ("unit", "count", "seasons"),
    [
        ("month", 1, [12]),
        ("month", 3, [4]),
        ("month", 5, []),
        ("day", 1, [7, 364]),
        ("day", 7, [52]),
        ("hour", 1, [24, 168, 8736]),
        ("hour", 6, [4, 28, 1456]),
        ("fixed", HOUR // 2, [2, 48, 336, 17472]),
        ("fixed", 10**6, [60, 3600, DAY // 10**6, 7 * DAY // 10**6, 364 * DAY // 10**6]),
        ("year", 1, []),
    ],
)
def test_the_calendar(unit: str, count: int, seasons: list[int]) -> None:
    assert calendar_seasons(TimeAxis("%Y-%m-%d", unit, count)) == seasons
    assert calendar_seasons(TimeAxis("number", "fixed", 1)) == calendar_seasons(None) == []


def test_the_order_of_autoregressions() -> None:
    chance = np.random.default_rng(0)
    assert guess_order(chance.normal(size=500)) == 0
    assert guess_order(chain(0.9)(2000, chance)) == 1
    assert 2 <= guess_order(chain(1.3, -0.6)(2000, chance)) <= 6
    assert guess_order(np.stack([chance.normal(size=400), chain(0.9)(400, chance)], axis=1)) >= 1
    assert guess_order([1.0, 2.0]) == 0


def test_the_horizon() -> None:
    assert guess_horizon(12, 240) == (12, "one season")
    assert guess_horizon(12, 47).steps == 4
    assert guess_horizon(1, 2000).steps == 12
    assert guess_horizon(1, 5) == (1, "a tenth of the 5 steps that there are")


def test_the_look_back() -> None:
    assert guess_lookback(12, 3, 6, 100) == (24, "two seasons")
    assert guess_lookback(1, 9, 6, 100) == (9, "an autoregression of these series has order 9")
    assert guess_lookback(1, 3, 6, 100) == (6, "as many as are forecast")
    assert guess_lookback(1, 0, 1, 100).steps == 1
    shorter = guess_lookback(12, 3, 6, 20)
    assert (shorter.steps, "two seasons would be 24" in shorter.why) == (20, True)


def test_what_cannot_be_measured_is_refused() -> None:
    for values in ([], [1.0, np.nan], 3.0, [1e200, 1.0]):
        with pytest.raises(DataError, match="the history is empty, or has NaN"):
            guess_season(values)
