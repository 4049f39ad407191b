"""Forecasts without learning or with very little of it: what a recurrence must beat."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unspool.data.times import TimeAxis
from unspool.errors import ArgumentError, DataError, ShapeError

Floats = NDArray[np.float64]

#: What a year, a week or a day has of units.
CYCLES = {"month": 12, "day": 7, "hour": 24}


def persistence(history: ArrayLike, horizon: int) -> Floats:
    """The last value, again and again. Time comes first; what follows is kept."""
    return seasonal_naive(history, horizon, 1)


def seasonal_naive(history: ArrayLike, horizon: int, season: int) -> Floats:
    """The last season, again and again. Time comes first; what follows is kept."""
    values = _finite(history)
    _at_least("horizon", horizon, 1)
    _at_least("season", season, 1)
    if len(values) < season:
        raise DataError(f"{len(values)} steps are less than a season of {season}. Give a longer history.")
    return values[len(values) - season + np.arange(horizon) % season]


@dataclass(frozen=True)
class AR:
    """An autoregression: y_t = intercept + Σ coefficients[i] · y_(t−1−i) + noise of this deviation."""

    intercept: float
    coefficients: Floats
    deviation: float

    @classmethod
    def fit(cls, values: ArrayLike, order: int | None = None, *, limit: int = 24) -> Self:
        """By least squares; without an order, that of the least AIC up to `limit`, or a third of the series."""
        series = _finite(values)
        if series.ndim != 1:
            raise ShapeError.of("values", series.shape, "are not one series", "Give them with one dimension")
        if order is None:
            most = min(limit, len(series) // 3)
            _at_least("limit", most, 0)
            order = min(range(most + 1), key=lambda tried: cls._criterion(series, tried, most))
        _at_least("order", order, 0)
        if len(series) < 2 * order + 1:
            raise DataError(f"{len(series)} steps are too few for order {order}. Give {2 * order + 1} or more.")
        coefficients, residuals = _least_squares(series - series.mean(), order, order)
        intercept = coefficients[0] + series.mean() * (1 - coefficients[1:].sum())
        return cls(float(intercept), coefficients[1:], float(np.sqrt(np.mean(residuals**2))))

    def forecast(self, history: ArrayLike, horizon: int) -> Floats:
        """The expected next values, each fed back for the one after it."""
        order = len(self.coefficients)
        known = np.concatenate([self._recent(history, horizon), np.empty(horizon)])
        for step in range(order, order + horizon):
            known[step] = self.intercept + known[step - order : step][::-1] @ self.coefficients
        return known[order:]

    def interval(self, history: ArrayLike, horizon: int, level: float = 0.95) -> tuple[Floats, Floats]:
        """Where each next value lies with probability `level`, if the noise is Gaussian and the coefficients right."""
        if not 0 < level < 1:
            raise ArgumentError.of("level", level, "is not a probability", "Give a number between 0 and 1")
        middle = self.forecast(history, horizon)
        pulse = AR(0.0, self.coefficients, 0.0)
        quiet = np.zeros(len(self.coefficients))
        answers = np.append(1.0, pulse.forecast(np.append(quiet, 1.0), horizon))[:horizon]
        width = NormalDist().inv_cdf((1 + level) / 2) * self.deviation * np.sqrt(np.cumsum(answers**2))
        return middle - width, middle + width

    def _recent(self, history: ArrayLike, horizon: int) -> Floats:
        values = _finite(history)
        _at_least("horizon", horizon, 1)
        if values.ndim != 1 or len(values) < len(self.coefficients):
            remedy = f"Give {len(self.coefficients)} or more, with one dimension"
            raise ShapeError.of("history", values.shape, f"is no series for order {len(self.coefficients)}", remedy)
        return values[len(values) - len(self.coefficients) :]

    @staticmethod
    def _criterion(series: Floats, order: int, most: int) -> float:
        """Akaike's, on the steps that the highest order can explain too, so that orders are compared alike."""
        _, residuals = _least_squares(series - series.mean(), order, most)
        least = np.finfo(np.float64).eps ** 2 * max(float(np.mean(series**2)), np.finfo(np.float64).tiny)
        return len(residuals) * float(np.log(max(np.mean(residuals**2), least))) + 2 * order


def guess_season(values: ArrayLike, axis: TimeAxis | None = None) -> int:
    """The steps of a season: by the calendar, otherwise by the highest peak of the autocorrelation; 1 if there is none.

    Months have 12, quarters 4, days 7, weeks 52 and hours 24. What is longer than the series is none.
    """
    series = _finite(values)
    if axis is not None and axis.unit in CYCLES:
        cycle = 364 if axis.unit == "day" and axis.count == 7 else CYCLES[axis.unit]
        season = int(cycle // axis.count) if cycle % axis.count == 0 else 1
        if season > 1:
            return season if season <= len(series) else 1
    return _peak(series if series.ndim == 1 else series.reshape(len(series), -1)[:, 0])


def _peak(series: Floats) -> int:
    """The lag of the highest peak of the autocorrelation of what a straight line leaves, if it is not by chance."""
    steps = len(series)
    if steps < 8:
        return 1
    line = np.stack([np.ones(steps), np.linspace(-1, 1, steps)], axis=1)
    left = series - line @ np.linalg.lstsq(line, series, rcond=None)[0]
    if np.abs(left).max() <= 1e-9 * np.abs(series).max():
        return 1
    left /= np.abs(left).max()
    power = np.abs(np.fft.rfft(left, 2 * steps)) ** 2
    correlation = np.fft.irfft(power)[: steps // 2 + 1]
    correlation /= correlation[0]
    inner, chance = correlation[1:-1], 2 / np.sqrt(steps)
    peaks = np.flatnonzero((inner > correlation[:-2]) & (inner >= correlation[2:]) & (inner > chance)) + 1
    if not len(peaks):
        return 1
    period = float(peaks[correlation[peaks].argmax()])
    times = 2
    while (times + 0.5) * period < len(correlation):  # at its multiples the fraction of a step shows
        near = np.arange(round((times - 0.25) * period), round((times + 0.25) * period) + 1)
        best = int(near[correlation[near].argmax()])
        if correlation[best] <= 0:
            break
        period = best / times
        times += 1
    return round(period)


def _least_squares(series: Floats, order: int, skipped: int) -> tuple[Floats, Floats]:
    """Intercept and coefficients, and the residuals of all steps after the first `skipped`."""
    steps = len(series)
    lags = [series[skipped - lag : steps - lag] for lag in range(1, order + 1)]
    design = np.stack([np.ones(steps - skipped), *lags], axis=1)
    solution = np.asarray(np.linalg.lstsq(design, series[skipped:], rcond=None)[0], np.float64)
    return solution, series[skipped:] - design @ solution


def _finite(values: ArrayLike) -> Floats:
    array = np.asarray(values, np.float64)
    if array.ndim == 0 or not array.size or not (np.abs(array) < 1e150).all():  # squares must be finite too
        raise DataError("the history is empty, or has NaN or numbers beyond 1e150. Give one number for each step.")
    return array


def _at_least(name: str, value: int, least: int) -> None:
    if value < least:
        raise ArgumentError.of(name, value, f"is less than {least}", f"Give {least} or more")
