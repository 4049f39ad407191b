"""Cycles of a series: tests of whether it has one, against noise that is correlated from step to step.

Two tests complete each other. `Background` finds cycles of a constant phase: the series is regressed on a smooth
trend, on its own last values and on the waves of a cycle, and an F-test says what the waves add. `find_recurrence`
finds cycles whose phase drifts, such as those of sunspots: it compares the autocorrelation with that of noise without
any cycle, which is simulated from the likeliest spectrum that only falls or only rises with frequency.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Self

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

#: The probability of a false alarm of each test, for all lags or frequencies that it tries together.
SIGNIFICANCE = 0.01
#: Fewest steps in which a cycle can be found, and fewest cycles of which a cycle is known by.
FEWEST, CYCLES = 8, 3
#: Steps that are looked at, from the end: by the regression, and by the simulation.
REGRESSED, SIMULATED = 20_000, 4096
#: The degree of the polynomial that is a trend.
DEGREE = 3
#: How many frequencies are tried for each that the series itself resolves.
FINENESS = 8
#: Waves of a cycle, at most: its period, half of it, a third, …
WAVES = 6
#: Of a drifting cycle, the least autocorrelation after one period and after two.
RETURN, SECOND_RETURN = 0.3, 0.1
#: The least contrast of a series without noise that repeats itself; 2 is the highest there is.
REPEATED = 1.0
#: Simulated series.
SIMULATIONS = 199
#: Entries further from the median than this many standard deviations, as the middle half has them, are outliers.
OUTLYING = 6.0
#: Of nearly equal peaks, the one at the shortest lag is the period.
NEARLY = 0.85


@dataclass(frozen=True)
class Background:
    """A series as a trend, its own last values and noise; cycles are tested against it.

    Example:
        background = Background.fit(series)
        background.order, background.find_wave(), background.log_chance(12)
    """

    order: int  # lags of the autoregression, of the lowest AIC
    regressors: Floats  # (steps, ·), orthonormal
    noise: Floats  # (steps,): what they do not explain
    explained: bool  # whether they explain everything, so that nothing can be tested

    @classmethod
    def fit(cls, series: Floats) -> Self:
        """Fit it to a series (steps,) of at least FEWEST steps."""
        most = min(int(12 * (len(series) / 100) ** 0.25), len(series) // 5)  # Schwert's rule
        length = len(series) - most
        lags = [series[most - lag : len(series) - lag] for lag in range(1, most + 1)]
        regressors, _ = np.linalg.qr(np.stack([*_trend(length).T, *lags], axis=1))
        values = series[most:]
        left = np.maximum(np.square(values).sum() - np.cumsum(np.square(regressors.T @ values)), 0.0)[DEGREE:]
        total = max(float(left[0]), np.finfo(np.float64).tiny)
        order = int((length * np.log(np.maximum(left / total, 1e-24)) + 2 * np.arange(most + 1)).argmin())  # AIC
        chosen = regressors[:, : DEGREE + 1 + order]
        noise = values - chosen @ (chosen.T @ values)
        return cls(order, chosen, noise, float(np.square(noise).sum()) <= 1e-12 * total)

    def log_chance(self, period: int) -> float:
        """The logarithm of the probability that noise has a cycle of this many steps as strong."""
        count = max(min((period - 1) // 2, WAVES), 1)
        angles = 2 * np.pi * np.arange(len(self.noise))[:, None] * np.arange(1, count + 1) / period
        waves = np.concatenate([np.cos(angles), np.sin(angles)], axis=1)
        waves = waves - self.regressors @ (self.regressors.T @ waves)
        solution = np.linalg.lstsq(waves, self.noise, rcond=1e-8)[0]
        rest = np.square(self.noise - waves @ solution).sum() / np.square(self.noise).sum()
        return float(self._log_chances(np.array([rest]), count)[0])

    def find_wave(self) -> float | None:
        """The period of the strongest single wave; None where noise may well have one as strong."""
        length = len(self.noise)
        size = FINENESS * length
        bins = np.arange(CYCLES * FINENESS, size // 2 + 1)
        if self.explained or not len(bins):
            return None
        chances = self._log_chances(1 - self._explained_by_waves(size, bins), 1)
        best = int(chances.argmin())
        # Frequencies in between two of the series' own, of which there are length / 2, are not independent of these.
        return size / int(bins[best]) if chances[best] + math.log(length) < math.log(SIGNIFICANCE) else None

    def _explained_by_waves(self, size: int, bins: NDArray[np.int64]) -> Floats:
        """The fraction of the noise that a cosine and a sine of each frequency explain, beside the regressors."""
        product = np.fft.rfft(self.noise, size)[bins]
        shared = np.fft.rfft(self.regressors, size, axis=0)[bins]
        length = len(self.noise)
        double = np.fft.fft(np.ones(length), size)[2 * bins % size]  # Σ cos² − Σ sin², and −2 Σ cos sin
        cosines = (length + double.real) / 2 - np.square(shared.real).sum(1)
        sines = (length - double.real) / 2 - np.square(shared.imag).sum(1)
        mixed = double.imag / 2 - (shared.real * shared.imag).sum(1)
        determinant = cosines * sines - np.square(mixed)
        both = sines * product.real**2 - 2 * mixed * product.real * product.imag + cosines * product.imag**2
        alike = determinant < 1e-6 * length**2  # at the highest frequency there is a cosine only
        gain = np.where(alike, product.real**2, both) / np.where(alike, np.maximum(cosines, length / 4), determinant)
        found: Floats = np.clip(gain / np.square(self.noise).sum(), 0.0, 1.0)
        return found

    def _log_chances(self, rest: Floats, waves: int) -> Floats:
        """log P(B ≤ rest), B ~ Beta(a, waves), the fraction that so many waves leave of white noise."""
        freedom = (len(self.noise) - self.regressors.shape[1] - 2 * waves) / 2
        rest = np.maximum(rest, 1e-300)
        terms = [math.lgamma(freedom + one) - math.lgamma(freedom) - math.lgamma(one + 1) for one in range(waves)]
        series = sum(math.exp(term) * (1 - rest) ** power for power, term in enumerate(terms))
        found: Floats = freedom * np.log(rest) + np.log(series)
        return found


def find_recurrence(series: Floats) -> int | None:
    """The lag at which a series returns to itself again and again; None where noise without a cycle may do as well.

    Args:
        series: Values (steps,), at least FEWEST.
    """
    values = clean(series[-SIMULATED:])
    correlation = autocorrelation(values)
    if correlation is None:
        return None
    lags = _returns(correlation)
    if not len(lags):
        return None
    found = contrast(correlation, lags)
    above = _above_noise(values, lags, found)
    lags, found = lags[above], found[above]
    return int(lags[np.flatnonzero(found >= NEARLY * found.max())[0]]) if len(lags) else None


def find_repetition(series: Floats) -> int | None:
    """The first lag at which a series without noise returns to itself; None if there is none."""
    correlation = autocorrelation(clean(series))
    lags = np.empty(0, np.int64) if correlation is None else _returns(correlation)
    if correlation is None or not len(lags):
        return None
    found = contrast(correlation, lags)
    return int(lags[np.flatnonzero(found >= NEARLY * found.max())[0]]) if found.max() >= REPEATED else None


def _returns(correlation: Floats) -> NDArray[np.int64]:
    """Lags at which the autocorrelation has a high peak, and is still high after twice as many steps."""
    lags = np.arange(2, len(correlation) // CYCLES + 1)
    peaks = (correlation[lags] >= correlation[lags - 1]) & (correlation[lags] >= correlation[lags + 1])
    return lags[peaks & (correlation[lags] >= RETURN) & (correlation[2 * lags] >= SECOND_RETURN)]


def _above_noise(values: Floats, lags: NDArray[np.int64], found: Floats) -> NDArray[np.bool_]:
    """Whether the contrast at each lag is higher than noise without a cycle has anywhere, in deviations of its own."""
    chance = np.random.default_rng(0)
    every = np.arange(2, len(values) // CYCLES + 1)
    spectrum = _monotone_spectrum(values)
    simulated = (autocorrelation(clean(_simulate(spectrum, len(values), chance))) for _ in range(SIMULATIONS))
    noise = np.stack([contrast(one, every) for one in simulated if one is not None])
    mean, deviation = noise.mean(0), noise.std(0) + 1e-12
    limit = np.quantile(((noise - mean) / deviation).max(1), 1 - SIGNIFICANCE, method="higher")
    above: NDArray[np.bool_] = (found - mean[lags - 2]) / deviation[lags - 2] > limit
    return above


def clean(series: Floats) -> Floats:
    """A series without its trend and with outliers drawn in, of mean square 1; zeros where nothing is left."""
    trend = _trend(len(series))
    rest = series - trend @ (trend.T @ series)
    if np.abs(rest).max() <= 1e-9 * np.abs(series).max():
        return np.zeros_like(rest)
    rest = np.ldexp(rest, -np.frexp(np.abs(rest).max())[1])  # exact; squares of tiny numbers would be 0
    low, middle, high = np.quantile(rest, [0.25, 0.5, 0.75])
    reach = OUTLYING * (high - low) / 1.349
    if reach > 0:
        rest = np.clip(rest, middle - reach, middle + reach)
    found: Floats = rest / np.sqrt(np.square(rest).mean())
    return found


def autocorrelation(values: Floats) -> Floats | None:
    """At every lag; None where all values are 0."""
    products = np.fft.irfft(np.square(np.abs(np.fft.rfft(values, 2 * len(values)))))[: len(values)]
    found: Floats = products / products[0] if products[0] > 0 else products
    return found if products[0] > 0 else None


def contrast(correlation: Floats, lags: NDArray[np.int64] | Floats, period: Floats | float | None = None) -> Floats:
    """How far the autocorrelation at some lags is above that half a period before and after; at most 2."""
    half = np.asarray(lags if period is None else period) / 2
    places = np.arange(len(correlation))
    around = np.interp(lags - half, places, correlation) + np.interp(lags + half, places, correlation)
    found: Floats = np.interp(lags, places, correlation) - around / 2
    return found


@lru_cache(maxsize=8)
def _trend(steps: int) -> Floats:
    """Polynomials that are orthonormal, (steps, ·)."""
    found: Floats = np.linalg.qr(np.polynomial.legendre.legvander(np.linspace(-1, 1, steps), DEGREE))[0]
    return found


def _monotone_spectrum(values: Floats) -> Floats:
    """The likeliest spectrum of noise that only falls or only rises, at the frequencies of twice as many steps."""
    power = np.square(np.abs(np.fft.rfft(values)))[1:]
    falling, rising = _pool(power), _pool(power[::-1])[::-1]
    likelier = min(falling, rising, key=lambda one: float((np.log(one) + power / one).sum()))
    places = np.arange(len(values) + 1) / 2
    found: Floats = np.interp(places, np.arange(1, len(power) + 1), likelier)
    return found


def _pool(power: Floats) -> Floats:
    """The closest sequence that does not rise: neighbors that rise are replaced by their mean."""
    means: list[float] = []
    sizes: list[int] = []
    for one in np.maximum(power, 1e-12 * power.max()).tolist():
        mean, size = one, 1
        while means and means[-1] <= mean:
            mean = (mean * size + means[-1] * sizes[-1]) / (size + sizes[-1])
            size += sizes.pop()
            means.pop()
        means.append(mean)
        sizes.append(size)
    return np.repeat(means, sizes)


def _simulate(spectrum: Floats, steps: int, chance: np.random.Generator) -> Floats:
    """A series of Gaussian noise with a spectrum that is given at the frequencies of 2·steps."""
    noise = chance.normal(size=(2, len(spectrum)))
    found: Floats = np.fft.irfft(np.sqrt(spectrum) * (noise[0] + 1j * noise[1]), 2 * steps)[:steps]
    return found
