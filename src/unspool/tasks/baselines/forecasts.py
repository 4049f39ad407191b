"""Forecasting baselines: persistence, seasonal naive and autoregression."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unspool.data.seasons import check_history
from unspool.errors import ArgumentError, DataError, ShapeError

Floats = NDArray[np.float64]


def persistence(history: ArrayLike, horizon: int) -> Floats:
    """Repeat the last value; see `seasonal_naive`."""
    return seasonal_naive(history, horizon, 1)


def seasonal_naive(history: ArrayLike, horizon: int, season: int) -> Floats:
    """Repeat the last season.

    Args:
        history: Values (steps, …).
        horizon: Steps to forecast.
        season: Steps per season.

    Returns:
        The forecast (horizon, …).

    Example:
        seasonal_naive([1, 2, 3, 4, 5], horizon=4, season=3)  # [3, 4, 5, 3]
    """
    values = check_history(history)
    _at_least("horizon", horizon, 1)
    _at_least("season", season, 1)
    if len(values) < season:
        raise DataError(f"{len(values)} steps are less than a season of {season}. Give a longer history.")
    return values[len(values) - season + np.arange(horizon) % season]


@dataclass(frozen=True)
class AR:
    """An autoregression: y_t = intercept + Σ coefficients[i] · y_(t−1−i) + noise of this standard deviation.

    Example:
        model = AR.fit(values)
        model.forecast(values, horizon=12), model.interval(values, 12, level=0.95)
    """

    intercept: float
    coefficients: Floats
    deviation: float

    @classmethod
    def fit(cls, values: ArrayLike, order: int | None = None, *, limit: int = 24) -> Self:
        """Fit by least squares.

        Args:
            values: A series (steps,).
            order: The number of lags; None: that of the lowest AIC.
            limit: The highest order to try, at most a third of the series.
        """
        series = check_history(values)
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
        """The expected next values (horizon,), each of which is fed back for the one after it."""
        order = len(self.coefficients)
        known = np.concatenate([self._recent(history, horizon), np.empty(horizon)])
        for step in range(order, order + horizon):
            known[step] = self.intercept + known[step - order : step][::-1] @ self.coefficients
        return known[order:]

    def interval(self, history: ArrayLike, horizon: int, level: float = 0.95) -> tuple[Floats, Floats]:
        """The interval in which each next value lies with probability `level`, if the noise is Gaussian."""
        if not 0 < level < 1:
            raise ArgumentError.of("level", level, "is not a probability", "Give a number between 0 and 1")
        middle = self.forecast(history, horizon)
        pulse = AR(0.0, self.coefficients, 0.0)
        quiet = np.zeros(len(self.coefficients))
        response = np.append(1.0, pulse.forecast(np.append(quiet, 1.0), horizon))[:horizon]
        width = NormalDist().inv_cdf((1 + level) / 2) * self.deviation * np.sqrt(np.cumsum(response**2))
        return middle - width, middle + width

    def _recent(self, history: ArrayLike, horizon: int) -> Floats:
        values = check_history(history)
        _at_least("horizon", horizon, 1)
        if values.ndim != 1 or len(values) < len(self.coefficients):
            remedy = f"Give {len(self.coefficients)} or more, with one dimension"
            raise ShapeError.of("history", values.shape, f"is no series for order {len(self.coefficients)}", remedy)
        return values[len(values) - len(self.coefficients) :]

    @staticmethod
    def _criterion(series: Floats, order: int, most: int) -> float:
        """The AIC, on the steps that the highest order can explain too, so that orders are compared alike."""
        _, residuals = _least_squares(series - series.mean(), order, most)
        least = np.finfo(np.float64).eps ** 2 * max(float(np.mean(series**2)), np.finfo(np.float64).tiny)
        return len(residuals) * float(np.log(max(np.mean(residuals**2), least))) + 2 * order


def _least_squares(series: Floats, order: int, skipped: int) -> tuple[Floats, Floats]:
    """Intercept and coefficients, and the residuals of all steps after the first `skipped`."""
    steps = len(series)
    lags = [series[skipped - lag : steps - lag] for lag in range(1, order + 1)]
    design = np.stack([np.ones(steps - skipped), *lags], axis=1)
    solution = np.asarray(np.linalg.lstsq(design, series[skipped:], rcond=None)[0], np.float64)
    return solution, series[skipped:] - design @ solution


def _at_least(name: str, value: int, least: int) -> None:
    if value < least:
        raise ArgumentError.of(name, value, f"is less than {least}", f"Give {least} or more")
