"""Seasons: how many steps of a series make a period, if it has one, and how far back its last values count."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unspool.data.cycles import (
    CYCLES,
    FEWEST,
    NEARLY,
    REGRESSED,
    SIGNIFICANCE,
    Background,
    autocorrelation,
    clean,
    contrast,
    find_recurrence,
    find_repetition,
)
from unspool.data.scale import LARGEST
from unspool.data.times import DAY, HOUR, TimeAxis
from unspool.errors import DataError

Floats = NDArray[np.float64]

#: Microseconds of the cycles that the calendar has below a month: a minute, an hour, a day, a week, 52 weeks.
SHORT_CYCLES = (HOUR // 60, HOUR, DAY, 7 * DAY, 364 * DAY)
#: The least contrast of a season: it then explains a twentieth of the variance.
CONTRAST = 0.1
#: Multiples of a wave's period that may be the season: the strongest wave of a season need not be its longest.
MULTIPLES = 100
#: Where there is no season, a forecast covers this fraction of the series, and at most so many steps.
AHEAD, FARTHEST = 0.1, 12
#: A series needs this many seasons for one to be forecast.
SEASONS = 4


def guess_season(values: ArrayLike, axis: TimeAxis | None = None) -> int:
    """The number of steps per season: of the calendar, or any other, if it is significant.

    Each test has a probability of a false alarm of 1 % (`cycles.SIGNIFICANCE`), for all seasons that it tries, against
    noise that is correlated from step to step and may have a trend.

    Args:
        values: A series (steps,) or (steps, targets), of which the first target counts.
        axis: The time axis. Seasons of the calendar, such as 12 months, 7 days or 48 half-hours, are tried first.

    Returns:
        The steps; 1 if there is no season.

    Example:
        guess_season([1, 5, 2, 1, 5, 2] * 8)  # 3
    """
    history = check_history(values)
    series = history.reshape(len(history), -1)[-REGRESSED:, 0]
    if len(series) < FEWEST or not clean(series).any():
        return 1
    series = series / np.abs(series).max()
    background = Background.fit(series)
    if background.explained:
        return find_repetition(series) or 1
    season = _find_calendar(background, series, axis) or _find_any(background, series)
    return season if _matters(season, clean(series), background.noise) else 1


def guess_order(values: ArrayLike) -> int:
    """How many of its last values say something of the next: the order of an autoregression, by AIC, beside a trend.

    Example:
        guess_order(np.random.default_rng(0).normal(size=500).cumsum())  # 1
    """
    series = check_history(values)[-REGRESSED:]
    if len(series) < FEWEST:
        return 0
    return max(Background.fit(column).order for column in series.reshape(len(series), -1).T)


class Steps(NamedTuple):
    """A number of steps, and why so many."""

    steps: int
    why: str


def guess_horizon(season: int, steps: int) -> Steps:
    """How far to forecast series of this season, of which the shortest has so many steps.

    Example:
        guess_horizon(12, 240)  # Steps(steps=12, why="one season")
    """
    if 1 < season <= steps // SEASONS:
        return Steps(season, "one season")
    ahead = int(AHEAD * steps)
    if ahead >= FARTHEST:
        return Steps(FARTHEST, "there is no season that the series has four times")
    return Steps(max(ahead, 1), f"a tenth of the {steps} steps that there are")


def follow_memory(memory: int, season: int, horizon: int, most: int) -> Steps:
    """How many steps a forecast is to read if so many tell something of the next.

    Args:
        memory: The steps that tell something of the next, at least 1.
        season: Steps per season; 1 if there is none.
        horizon: Steps to forecast.
        most: The most steps that there can be.

    Example:
        >>> follow_memory(30, season=1, horizon=6, most=100)
        Steps(steps=60, why='twice the memory of 30')
    """
    twice = {f"twice the memory of {memory}": 2 * memory}
    return _choose_most({**twice, **_season_reason(season), **_horizon_reason(horizon)}, most)


def guess_lookback(season: int, order: int, horizon: int, most: int) -> Steps:
    """How many steps a forecast is to read.

    Args:
        season: Steps per season; 1 if there is none.
        order: The last values that say something of the next, as `guess_order` finds them.
        horizon: Steps to forecast.
        most: The most steps that there can be.

    Example:
        guess_lookback(12, order=3, horizon=6, most=100)  # Steps(steps=24, why="two seasons")
    """
    order_reason = {f"an autoregression of these series has order {order}": order}
    return _choose_most({**_season_reason(season), **order_reason, **_horizon_reason(horizon)}, most)


def _season_reason(season: int) -> dict[str, int]:
    return {"two seasons": 2 * season if season > 1 else 1}


def _horizon_reason(horizon: int) -> dict[str, int]:
    return {"as many as are forecast": horizon}


def _choose_most(reasons: Mapping[str, int], most: int) -> Steps:
    """The reason for the longest lookback."""
    why = max(reasons, key=lambda one: reasons[one])
    if reasons[why] > most:
        return Steps(most, f"{why} would be {reasons[why]}, but half of the training part must remain")
    return Steps(reasons[why], why)


def check_history(values: ArrayLike) -> Floats:
    """Values as an array; refused where it is empty or has numbers that cannot be averaged."""
    array = np.asarray(values, np.float64)
    if array.ndim == 0 or not array.size or not (np.abs(array) < LARGEST).all():
        raise DataError(
            f"the history is empty, or has NaN or numbers beyond {LARGEST:g}. Give one number for each step."
        )
    return array


def calendar_seasons(axis: TimeAxis | None) -> list[int]:
    """The steps per cycle of the calendar, ascending; those cycles that are a whole number of steps.

    Example:
        calendar_seasons(TimeAxis("%Y-%m-%d", "day", 1))  # [7, 364]
    """
    lengths = [] if axis is None else _cycles(axis)
    return [round(length) for length in lengths if length >= 2 and length == round(length)]


def _cycles(axis: TimeAxis) -> list[float]:
    """The steps per cycle of the calendar, whole or not; none where the length of a step is not known."""
    if axis.unit == "month":
        return [12 / axis.count]
    return [cycle / axis.microseconds for cycle in SHORT_CYCLES] if axis.microseconds else []


def _find_calendar(background: Background, series: Floats, axis: TimeAxis | None) -> int | None:
    """The shortest season of the calendar that is significant."""
    tried = [season for season in calendar_seasons(axis) if 2 * season <= len(series)]
    limit = math.log(SIGNIFICANCE / max(len(tried), 1))
    return next((season for season in tried if background.log_chance(season) < limit), None)


def _find_any(background: Background, series: Floats) -> int:
    """The season by the strongest wave, or else by the autocorrelation; 1 if neither is significant."""
    period = background.find_wave()
    correlation = autocorrelation(clean(series))
    if correlation is None:
        return 1
    if period is not None:
        return _whole_season(period, correlation)
    found = find_recurrence(series)
    return 1 if found is None else _refine(found, correlation)


def _matters(season: int, *views: Floats) -> bool:
    """Whether a season explains enough of the series, or of what its last values do not explain."""
    correlations = [one for view in views if (one := autocorrelation(view)) is not None]
    return any(contrast(one, np.array([season])) >= CONTRAST for one in correlations)


def _whole_season(period: float, correlation: Floats) -> int:
    """The first multiple of a wave's period after which the series is nearly as it was; 1 if there is none."""
    limit = (len(correlation) + CYCLES - 1) // CYCLES
    multiples = np.arange(1, max(min(MULTIPLES, int(limit / period)), 1) + 1) * period
    lags = np.maximum(np.stack([np.floor(multiples), np.ceil(multiples)]), 2)
    heights = contrast(correlation, lags, period)
    if heights.max() <= 0:
        return 1
    chance = 2 / math.sqrt(len(correlation))  # two standard errors
    first = int(np.flatnonzero(heights.max(0) >= NEARLY * heights.max() - chance)[0])
    return int(lags[heights[:, first].argmax(), first])


def _refine(period: float, correlation: Floats) -> int:
    """A period that need not be a whole number of steps, by the peaks near its multiples."""
    multiple = 2
    while (multiple + 0.5) * period < len(correlation) / 2:
        near = np.arange(round((multiple - 0.25) * period), round((multiple + 0.25) * period) + 1)
        best = int(near[correlation[near].argmax()])
        if correlation[best] <= 0:
            break
        period = best / multiple
        multiple += 1
    return round(period)
