"""Seasons: how many steps of a series make a period, by the calendar or by its autocorrelation."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unspool.data.times import TimeAxis
from unspool.errors import DataError

Floats = NDArray[np.float64]

#: Units per cycle of the calendar: months of a year, days of a week, hours of a day.
CYCLES = {"month": 12, "day": 7, "hour": 24}
#: Days of a year in whole weeks.
YEAR_OF_WEEKS = 364
#: Fewest steps in which a period can be found.
FEWEST = 8


def guess_season(values: ArrayLike, axis: TimeAxis | None = None) -> int:
    """The number of steps per season: by the calendar, or else by the highest peak of the autocorrelation.

    Args:
        values: A series (steps,) or (steps, targets), of which the first target counts.
        axis: The time axis; months have a season of 12, quarters 4, days 7, weeks 52 and hours 24.

    Returns:
        The steps; 1 if there is no season, or the series is shorter than one.

    Example:
        guess_season([1, 5, 2, 1, 5, 2] * 8)  # 3
    """
    series = check_history(values)
    season = _calendar_season(axis)
    if season > 1:
        return season if season <= len(series) else 1
    return _find_period(series if series.ndim == 1 else series.reshape(len(series), -1)[:, 0])


def check_history(values: ArrayLike) -> Floats:
    """Values as an array; refused where it is empty or has numbers that cannot be averaged."""
    array = np.asarray(values, np.float64)
    if array.ndim == 0 or not array.size or not (np.abs(array) < 1e150).all():  # squares must be finite too
        raise DataError("the history is empty, or has NaN or numbers beyond 1e150. Give one number for each step.")
    return array


def _calendar_season(axis: TimeAxis | None) -> int:
    """Steps per cycle of the calendar; 1 if the unit has none, or a cycle is not a whole number of steps."""
    if axis is None or axis.unit not in CYCLES:
        return 1
    cycle = YEAR_OF_WEEKS if axis.unit == "day" and axis.count == 7 else CYCLES[axis.unit]
    return int(cycle // axis.count) if cycle % axis.count == 0 else 1


def _find_period(series: Floats) -> int:
    """The lag of the highest significant peak of the autocorrelation, after a straight line is taken off; else 1."""
    correlation = _autocorrelation(series)
    if correlation is None:
        return 1
    inner, significant = correlation[1:-1], 2 / np.sqrt(len(series))
    peaks = np.flatnonzero((inner > correlation[:-2]) & (inner >= correlation[2:]) & (inner > significant)) + 1
    if not len(peaks):
        return 1
    return _refine(float(peaks[correlation[peaks].argmax()]), correlation)


def _autocorrelation(series: Floats) -> Floats | None:
    """At lags up to half the series; None for one that is too short, or a straight line."""
    steps = len(series)
    if steps < FEWEST:
        return None
    line = np.stack([np.ones(steps), np.linspace(-1, 1, steps)], axis=1)
    left = series - line @ np.linalg.lstsq(line, series, rcond=None)[0]
    if np.abs(left).max() <= 1e-9 * np.abs(series).max():
        return None
    left /= np.abs(left).max()
    power = np.abs(np.fft.rfft(left, 2 * steps)) ** 2
    correlation: Floats = np.fft.irfft(power)[: steps // 2 + 1]
    correlation /= correlation[0]
    return correlation


def _refine(period: float, correlation: Floats) -> int:
    """A period that need not be a whole number of steps, by the peaks near its multiples."""
    multiple = 2
    while (multiple + 0.5) * period < len(correlation):
        near = np.arange(round((multiple - 0.25) * period), round((multiple + 0.25) * period) + 1)
        best = int(near[correlation[near].argmax()])
        if correlation[best] <= 0:
            break
        period = best / multiple
        multiple += 1
    return round(period)
