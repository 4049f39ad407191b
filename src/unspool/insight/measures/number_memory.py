"""Number memory: from how many steps before it a number is predicted, by partial autocorrelation and by the season.

The partial autocorrelation at lag m is what the step m back adds to a linear prediction from the m − 1 nearer ones. Of
several features it is what all of them together add.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from unspool.data.seasons import guess_season
from unspool.insight.measures.context import LEFT, By, Context

Array = NDArray[np.float64]
#: The longest lag, the fewest pairs per lag and their fraction of those at lag 1, and the products of steps and lags.
LONGEST, PAIRS, PART, PRODUCTS = 1000, 20, 0.65, 30_000_000
#: The probability that a series without memory shows one, over all lags.
CHANCE = 0.005
#: A lag is taken into account by the later ones if its own probability by chance is below this.
TAKEN = 0.02
#: Features that are predicted together; of more, each is predicted from itself.
TOGETHER = 4
#: Waves that are taken off a series to tell drift from memory, if it has so many steps.
WAVES, FEWEST = 8, 200
#: Of many series, so many are looked at for a season.
SEASONS = 5
#: A variance below this fraction is none; a series of which less is left needs no season to be predicted.
EXPLAINED, NOISELESS = 1e-8, 0.01


def measure_numbers(sequences: Sequence[Array], *, detrend: bool = False, limit: int | None = None) -> Context:
    """Find the fewest steps that predict the next about as well as any number of them, linearly.

    Args:
        sequences: Arrays (steps, features).
        detrend: Subtract from each sequence its own straight line, and look for a season.
        limit: The longest lag.

    Returns:
        The memory, and by steps half the logarithm of the fraction of the variance that is not explained.

    Example:
        measure_numbers([values[:, None]], detrend=True).memory
    """
    parts = _read(sequences, detrend)
    plain = _measure(parts, limit)
    if not plain.memory:
        return plain
    season = _common_season(parts) if detrend and plain.memory > 2 else 1
    if season > 1 and (steps := _judge_season(parts, plain, season, limit)):
        return _cut(plain, steps, "season")
    return plain if season > 1 else _without_drift(parts, plain, limit)


def _judge_season(parts: Sequence[Array], plain: Context, season: int, limit: int | None) -> int:
    """The steps that a prediction by the season needs; 0 if the last values predict better, or all there is."""
    without = [_without_season(one, season) for one in parts]
    rest = _measure(without, limit)
    steps = max(season, rest.memory)
    if steps >= plain.memory and math.exp(-2 * plain.gain) < NOISELESS:
        return 0
    left = _variance(without) / _variance(parts)
    free = max(1 - season * len(parts) / sum(map(len, parts)), EXPLAINED)  # each phase has a mean of its own
    gain = rest.gain - 0.5 * math.log(max(left / free, EXPLAINED))
    return steps if gain > plain.gain else 0


def _cut(found: Context, steps: int, by: By) -> Context:
    """The same with another memory."""
    losses = [loss for place, loss in zip(found.steps, found.losses, strict=True) if place <= steps]
    kept = [place for place in found.steps if place <= steps]
    if kept[-1] < steps:
        kept, losses = [*kept, steps], [*losses, losses[-1]]
    names = [*found.by[: len(kept) - 1], by]
    return replace(found, steps=tuple(kept), losses=tuple(losses), by=tuple(names), memory=steps, at_least=False)


def _without_drift(parts: Sequence[Array], plain: Context, limit: int | None) -> Context:
    """Slow waves make each step resemble the last ones, as many as there are: that is no memory."""
    slow = [_take_off(one, _waves(len(one))) if len(one) >= FEWEST else one for one in parts]
    free = _measure(slow, limit)
    if 2 * free.memory > plain.memory:
        return plain
    return replace(free, drift=1 - _variance(slow) / _variance(parts))


def _variance(parts: Sequence[Array]) -> float:
    """The sum of squares, in which constants cancel."""
    return sum(float(np.square(one).sum()) for one in parts)


def _measure(parts: Sequence[Array], limit: int | None) -> Context:
    """Of all features together if they are few, else of that with the longest memory."""
    if not parts:
        return Context((0,), (0.0,), ("nothing",), 0, 0.0, 0.0)
    width = parts[0].shape[1]
    if width <= TOGETHER:
        return _judge(parts, limit)
    return max((_judge([part[:, [one]] for part in parts], limit) for one in range(width)), key=lambda one: one.memory)


def _judge(parts: Sequence[Array], limit: int | None) -> Context:
    """Count the lags that add more than chance."""
    gains, pairs = measure_partial(parts, limit)
    counted = np.where(2 * gains * pairs > _thresholds(len(gains), parts[0].shape[1] ** 2), gains, 0.0)
    total, reached = float(counted.sum()), np.cumsum(counted)
    memory = 1 + int(np.flatnonzero(reached >= (1 - LEFT) * total)[0]) if total > 0 else 0
    places = [0, *(int(place) + 1 for place in np.flatnonzero(counted))]
    losses = tuple(-float(reached[place - 1]) if place else 0.0 for place in places)
    names: tuple[By, ...] = tuple("linear" if place else "nothing" for place in places)
    error = 1 / math.sqrt(2 * max(int(pairs[0]), 1)) if len(pairs) else 0.0
    return Context(tuple(places), losses, names, memory, total, error, at_least=0 < memory == len(gains))


def _thresholds(lags: int, freedom: int) -> Array:
    """What χ² must exceed at each lag; short lags have more of the chance, as they are likelier to matter."""
    harmonic = 1 + math.log(max(lags, 1))
    return np.array([_chi_square(freedom, CHANCE / (lag * harmonic)) for lag in range(1, lags + 1)])


def measure_partial(parts: Sequence[Array], limit: int | None = None) -> tuple[Array, NDArray[np.int64]]:
    """What each lag adds to the linear prediction from the nearer ones, in nats; and how many free pairs tell so.

    With f what the m − 1 steps in between leave of a step, and b what they leave of the one m before it, f is regressed
    on b and b on f: the residuals are f and b of the next lag. For one feature the gain is −½ ln(1 − ρ²) with the
    partial autocorrelation ρ; for several it is half the logarithm of the determinants' ratio.

    Args:
        parts: Arrays (steps, features), centered.
        limit: The longest lag.

    Example:
        gains, pairs = measure_partial([values - values.mean(0)])
    """
    lags = _choose_lags(np.array([len(one) for one in parts]), limit)
    forward = np.concatenate(parts)
    backward, left = forward.copy(), np.concatenate([np.arange(len(one)) for one in parts])
    start = max(float(_determinant(forward)), 1e-300)
    gains, pairs = np.zeros(lags), np.zeros(lags, np.int64)
    least = _chi_square(forward.shape[1] ** 2, TAKEN)
    for lag in range(1, lags + 1):
        # each step with the one before it, in what is left of its sequence
        inside = left[1:] >= lag
        forward, backward, left = forward[1:][inside], backward[:-1][inside], left[1:][inside]
        before = float(_determinant(forward))
        pairs[lag - 1] = len(left) - lag * forward.shape[1]  # each lag has taken away a degree of freedom
        if before <= EXPLAINED ** forward.shape[1] * start:
            break
        rest = _residual(forward, backward)
        after = max(float(_determinant(rest)), EXPLAINED ** forward.shape[1] * start)
        gains[lag - 1] = 0.5 * max(math.log(before / after), 0.0)
        if 2 * gains[lag - 1] * pairs[lag - 1] > least:  # what is chance would add up over many lags
            forward, backward = rest, _residual(backward, forward)
    return gains, np.maximum(pairs, 1)


def _residual(values: Array, known: Array) -> Array:
    """What a regression on what is known leaves."""
    solution = np.linalg.lstsq(known.T @ known, known.T @ values, rcond=1e-12)[0]
    found: Array = values - known @ solution
    return found


def _determinant(values: Array) -> float:
    return float(np.linalg.det(values.T @ values / max(len(values), 1)))


def _choose_lags(lengths: NDArray[np.int64], limit: int | None) -> int:
    """The longest lag that has enough pairs, and costs little."""
    total = int(lengths.sum())
    most = min(limit or LONGEST, int(lengths.max(initial=1)) - 1, max(PRODUCTS // max(total, 1), 10))
    if most < 1:
        return 0
    pairs = np.array([np.maximum(lengths - lag, 0).sum() for lag in range(1, most + 1)])
    return int((pairs >= max(PAIRS, PART * pairs[0])).sum())


def _chi_square(freedom: int, chance: float) -> float:
    """The value that χ² exceeds with a small probability, by Wilson and Hilferty; exact for one degree of freedom."""
    if freedom == 1:
        return NormalDist().inv_cdf(1 - chance / 2) ** 2
    deviation = NormalDist().inv_cdf(1 - chance)
    part = 2 / (9 * freedom)
    return float(freedom * (1 - part + deviation * math.sqrt(part)) ** 3)


def _read(sequences: Sequence[Array], detrend: bool) -> list[Array]:
    """Sequences without constant features, centered; each without its own straight line, if asked."""
    parts = [np.asarray(one, np.float64) for one in sequences if len(one)]
    if detrend:
        parts = [_scale(_take_off(one, _line(len(one)))) for one in parts]
    if not parts:
        return []
    flat = np.concatenate(parts)
    deviation = flat.std(0)
    alive = deviation > 1e-12 * np.abs(flat).max(0, initial=0.0)
    if not alive.any():
        return []
    return [(one[:, alive] - flat.mean(0)[alive]) / deviation[alive] for one in parts]


def _scale(values: Array) -> Array:
    """In units of each feature's own deviation; rounding errors of a line become 0."""
    deviation = values.std(0)
    alive = deviation > 1e-12
    return np.asarray(np.where(alive, values / np.where(alive, deviation, 1.0), 0.0))


def _take_off(values: Array, known: Array) -> Array:
    """What a regression on columns leaves."""
    solution = np.linalg.lstsq(known, values, rcond=None)[0]
    found: Array = values - known @ solution
    return found


def _line(steps: int) -> Array:
    return np.stack([np.ones(steps), np.linspace(-1, 1, steps)], 1)


def _waves(steps: int) -> Array:
    """The slowest cosines, the first of which is constant."""
    return np.asarray(np.cos(np.pi * (np.arange(steps)[:, None] + 0.5) * np.arange(WAVES + 1) / steps))


def _without_season(values: Array, season: int) -> Array:
    """What the mean of each step of the season leaves."""
    phase = np.arange(len(values)) % season
    counts = np.maximum(np.bincount(phase, minlength=season), 1)
    means = np.stack([np.bincount(phase, column, season) / counts for column in values.T], 1)
    found: Array = values - means[phase]
    return found


def _common_season(parts: Sequence[Array]) -> int:
    """The season that most of some series have."""
    places = np.unique(np.linspace(0, len(parts) - 1, SEASONS).round().astype(int))
    seasons = [guess_season(parts[place]) for place in places]
    return max(sorted(seasons), key=seasons.count)
