"""Tests of cycles against the same tests as SciPy and statsmodels have them."""

from __future__ import annotations

import numpy as np
import pytest
import statsmodels.api as sm
from scipy.optimize import isotonic_regression
from scipy.signal import lfilter

from unspool.data.cycles import (
    DEGREE,
    FINENESS,
    Background,
    _monotone_spectrum,
    _simulate,
    autocorrelation,
    clean,
    contrast,
    find_recurrence,
    find_repetition,
)


def chain(steps: int, seed: int = 0) -> np.ndarray:
    noise = np.random.default_rng(seed).normal(size=steps + 100)
    found: np.ndarray = lfilter([1.0], [1.0, -0.8], noise)[100:]
    return found


def design(series: np.ndarray, background: Background) -> tuple[np.ndarray, np.ndarray]:
    """The regressors of the background, as they are: a polynomial and the last values."""
    most = len(series) - len(background.noise)
    time = np.linspace(-1, 1, len(background.noise))
    lags = [series[most - lag : len(series) - lag] for lag in range(1, background.order + 1)]
    return np.stack([time**power for power in range(DEGREE + 1)] + lags, axis=1), series[most:]


@pytest.mark.parametrize("period", [7, 12, 40])
def test_the_probability_is_that_of_an_f_test(period: int) -> None:
    series = chain(200) + 0.3 * np.cos(2 * np.pi * np.arange(200) / 12)
    background = Background.fit(series)
    assert background.order >= 1
    x, y = design(series, background)
    count = min((period - 1) // 2, 6)
    angles = 2 * np.pi * np.arange(len(y))[:, None] * np.arange(1, count + 1) / period
    full = sm.OLS(y, np.concatenate([x, np.cos(angles), np.sin(angles)], axis=1)).fit()
    expected = full.compare_f_test(sm.OLS(y, x).fit())[1]
    assert background.log_chance(period) == pytest.approx(np.log(expected), abs=1e-6)


def test_what_waves_explain_at_every_frequency_is_what_least_squares_say() -> None:
    series = chain(90, 1)
    background = Background.fit(series)
    x, y = design(series, background)
    size = FINENESS * len(y)
    bins = np.array([3 * FINENESS, 101, 200, size // 2])
    found = background._explained_by_waves(size, bins)
    rest = sm.OLS(y, x).fit().ssr
    for place, one in enumerate(bins):
        angles = 2 * np.pi * np.arange(len(y)) * one / size
        waves = [np.cos(angles), np.sin(angles)][: 1 if one == size // 2 else 2]
        expected = 1 - sm.OLS(y, np.stack([*x.T, *waves], axis=1)).fit().ssr / rest
        assert found[place] == pytest.approx(expected, abs=1e-9)


def test_the_order_is_that_of_the_lowest_aic() -> None:
    series = lfilter([1.0], [1.0, -0.5, 0.0, -0.4], np.random.default_rng(2).normal(size=400))
    most = int(12 * 4**0.25)
    time = np.linspace(-1, 1, len(series) - most)
    trend = [time**power for power in range(DEGREE + 1)]
    lags = [series[most - lag : len(series) - lag] for lag in range(1, most + 1)]
    fits = [sm.OLS(series[most:], np.stack([*trend, *lags[:order]], axis=1)).fit().aic for order in range(most + 1)]
    assert Background.fit(series).order == int(np.argmin(fits)) >= 3


def test_the_spectrum_of_noise_is_the_closest_that_falls() -> None:
    values = clean(chain(300, 3))
    power = np.square(np.abs(np.fft.rfft(values)))[1:]
    expected = isotonic_regression(power, increasing=False).x
    np.testing.assert_allclose(_monotone_spectrum(values)[2::2], expected, rtol=1e-9)
    rising = clean(lfilter([1.0], [1.0, 0.8], np.random.default_rng(0).normal(size=300)))
    assert (np.diff(_monotone_spectrum(rising)) >= -1e-12).all()


def test_simulated_noise_has_the_spectrum_that_it_is_made_from() -> None:
    chance, steps = np.random.default_rng(0), 64
    spectrum = 1 / (1 + np.arange(steps + 1) / 4.0)
    expected = np.fft.irfft(spectrum, 2 * steps)
    series = np.stack([_simulate(spectrum, steps, chance) for _ in range(4000)])
    found = np.array([(series[:, 20] * series[:, 20 + lag]).mean() for lag in range(4)])
    np.testing.assert_allclose(found / found[0], expected[:4] / expected[0], atol=0.05)


def test_the_contrast_of_a_wave_is_two() -> None:
    correlation = np.cos(2 * np.pi * np.arange(200) / 20)
    np.testing.assert_allclose(contrast(correlation, np.array([20, 40]), 20.0), 2)
    np.testing.assert_allclose(contrast(np.linspace(1, 0, 200), np.array([20, 40])), 0, atol=1e-12)  # a line has none


def test_a_series_is_cleaned_of_trend_and_outliers() -> None:
    step = np.linspace(-1, 1, 100)
    assert not clean(5 + 2 * step - step**3).any()
    noise = np.random.default_rng(0).normal(size=100)
    noise[50] = 1e6
    assert np.abs(clean(noise)).max() < 10
    assert autocorrelation(np.zeros(5)) is None


def test_recurrence_needs_more_than_one_return() -> None:
    step = np.arange(300)
    assert find_repetition(np.sin(2 * np.pi * step / 25)) == 25
    assert find_repetition(np.exp(step / 60)) is None
    assert find_recurrence(chain(300)) is None


def test_the_size_of_the_numbers_does_not_matter() -> None:
    """Squares of such numbers are 0."""
    series = chain(300, 3)
    assert np.allclose(clean(series * 1e-300), clean(series), rtol=1e-12, atol=1e-12)
