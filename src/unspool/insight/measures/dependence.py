"""Dependence: how much a step of the data says about a later one, by their distance, and where that is above chance.

For numbers it is the autocorrelation r, whose square is the fraction of the variance that the earlier step explains.
For tokens it is the mutual information I, where I/H is the fraction of the entropy that it explains.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from unspool.errors import ArgumentError, ShapeError

Array = NDArray[np.float64]
Ids = NDArray[np.integer[Any]]
#: A dependence counts where it is this many times what shuffled data shows at any lag …
MARGIN = 2.0
#: … and at least this fraction of the strongest one.
SHARE = 0.01
#: Data repeats if the last quarter of the lags is this strong again, relative to the strongest in their first half; for
#: tokens, lags beyond the first one that is nearly the strongest add nothing.
LASTING, NEARLY, ALL = 0.75, 0.9, 0.98
#: How often the data is shuffled.
SHUFFLES = 5
#: Steps that are measured, from the beginning, and the longest lag.
STEPS, LONGEST = 100_000, 1000
#: A lag needs at least this many pairs, and this fraction of the steps.
PAIRS, PART = 20, 0.25
#: Shuffled tokens, whose lags are all alike, are measured at each lag up to this one, then at some in each doubling.
EACH, IN_A_DOUBLING = 32, 8
#: Different tokens that are distinguished; the rarer ones count as one.
TOKENS = 64
#: Fewer are, if their table would have fewer pairs than this per entry.
FILLED = 50


@dataclass(frozen=True, eq=False)
class Dependence:
    """What a step says about the step `lags` later."""

    measure: Literal["autocorrelation", "mutual information"]
    lags: NDArray[np.int64]  # (K,) from 1 up; empty if all sequences are a single step
    values: Array  # (K,) r of the feature in which it is strongest; or I in nats, corrected for the bias of counting
    shares: Array  # (K,) the fraction r² or I/H, not below 0
    noise: Array  # (K,) the fraction above which it is not chance
    memory: int  # the last lag that counts; of data that repeats, the season, or the first lag as strong as any
    repeats: bool
    censored: bool  # the longest measured lag still counts, and the data does not repeat: memory may be longer


def measure_autocorrelation(
    sequences: Sequence[Array], limit: int | None = None, *, detrend: bool = False, seed: int = 0
) -> Dependence:
    """The autocorrelation of sequences of numbers, pooled.

    Args:
        sequences: arrays (steps, features).
        limit: the longest lag; by default as far as there are enough pairs.
        detrend: subtract from each sequence its own straight line, and scale it by itself.
        seed: for the shuffles.

    Returns:
        The dependence by lag, and the memory that it asks for.
    """
    _check(sequences, 2, "are not (steps, features)", "Reshape", limit)
    parts = _at_most([_standard(one) if detrend else one for one in sequences])
    lengths, lags = _lay_out(parts, limit)
    flat = _standard(np.concatenate(parts), line=False) if parts else np.zeros((0, 1))

    def measure(values: Array, asked: NDArray[np.int64]) -> Array:
        found = _correlations(values, lengths, asked)
        strongest = np.abs(found).argmax(1)
        picked: Array = found[np.arange(len(asked)), strongest]
        return picked

    return _judge("autocorrelation", lags, measure, np.square, flat, lengths, seed)


def measure_mutual_information(sequences: Sequence[Ids], limit: int | None = None, *, seed: int = 0) -> Dependence:
    """The mutual information of sequences of tokens, pooled, with Miller and Madow's correction of its bias.

    Args:
        sequences: arrays (steps,) of ids.
        limit: the longest lag; by default as far as there are enough pairs.
        seed: for the shuffles.

    Returns:
        The dependence by lag, and the memory that it asks for.
    """
    _check(sequences, 1, "are not (steps,)", "Give ids", limit)
    parts = _at_most(sequences)
    lengths, lags = _lay_out(parts, limit)
    pairs = _count_pairs(lengths, lags)
    # Neighboring pairs are not independent: a table with few pairs per entry would overestimate.
    size = int(np.clip(np.sqrt((pairs[-1] if len(pairs) else 0) / FILLED), 2, TOKENS))
    flat = _merge(np.concatenate(parts) if parts else np.zeros(0, np.int64), size)
    entropy = _entropy(np.bincount(flat)) if len(flat) else 0.0
    ends = np.repeat(np.cumsum(lengths), lengths)

    def measure(ids: Ids, asked: NDArray[np.int64]) -> Array:
        return np.array([_information(ids[:-lag], ids[lag:], ends[:-lag] == ends[lag:], size) for lag in asked])

    def share(nats: Array) -> Array:
        return np.maximum(nats, 0.0) / entropy if entropy else np.zeros_like(nats)

    return _judge("mutual information", lags, measure, share, flat, lengths, seed)


def _judge(
    name: Literal["autocorrelation", "mutual information"],
    lags: NDArray[np.int64],
    measure: Callable[[Any, NDArray[np.int64]], Array],
    share: Callable[[Array], Array],
    flat: NDArray[Any],
    lengths: NDArray[np.int64],
    seed: int,
) -> Dependence:
    """Measure the data and shuffles of it, and find which lags are above chance."""
    if not len(lags):
        return Dependence(name, lags, np.zeros(0), np.zeros(0), np.zeros(0), 0, False, False)
    values = measure(flat, lags)
    shares, pairs = share(values), _count_pairs(lengths, lags)
    chance, some = np.random.default_rng(seed), lags if name == "autocorrelation" else _spread(int(lags[-1]))
    shuffled = [share(measure(chance.permutation(flat), some)) for _ in range(SHUFFLES)]
    by_chance = float((np.array(shuffled) * _count_pairs(lengths, some)).max())
    alone = MARGIN * by_chance / pairs
    # Bartlett: the estimate at one lag varies more if the dependence at shorter lags is stronger.
    noise = alone * (1 + 2 * (np.cumsum(shares) - shares))
    counts = np.flatnonzero((shares > noise) & (shares >= SHARE * shares.max()))
    # Numbers repeat only with their own sign: half a season later all signs are reversed.
    numbers = name == "autocorrelation"
    place = _find_season(np.where(values > 0, shares, 0.0), alone) if numbers else _find_first(shares, noise)
    if place is not None:
        return Dependence(name, lags, values, shares, noise, int(lags[place]), True, False)
    if not len(counts):
        return Dependence(name, lags, values, shares, noise, 0, False, False)
    last = int(counts[-1])
    return Dependence(name, lags, values, shares, noise, int(lags[last]), False, last == len(lags) - 1)


def _find_season(shares: Array, noise: Array) -> int | None:
    """The place of the first peak after a fall, if the data returns as strongly up to the last lags."""
    if _stays(shares):
        return 0
    early, late = _halve(shares)
    strongest = float(early.max())
    low = np.flatnonzero(shares < LASTING / 2 * strongest)
    if len(shares) < 4 or not len(low) or min(strongest / shares.max(), late.max() / strongest) < LASTING:
        return None
    peak = _find_peak(shares, int(low[0]), LASTING * strongest)
    # The two ends of an arc are alike too: only what returns twice is a season.
    found = peak is not None and shares[peak] > noise[peak] and 2 * (peak + 1) <= len(shares)
    return peak if found else None


def _find_peak(shares: Array, first: int, least: float) -> int | None:
    """The highest place, from the first on, of the first stretch that is as strong as `least`."""
    high = np.flatnonzero(shares[first:] >= least)
    if not len(high):
        return None
    start = first + int(high[0])
    fallen = np.flatnonzero(shares[start:] < least)
    end = start + int(fallen[0]) if len(fallen) else len(shares)
    return start + int(shares[start:end].argmax())


def _find_first(shares: Array, noise: Array) -> int | None:
    """The first place that is nearly as strong as any, if the last lags are as strong."""
    early, late = _halve(shares)
    strongest = float(early.max())
    # A dependence that has not faded yet is no repeat: it must have been gone in between, or be complete throughout.
    returns = shares.min() < LASTING / 2 * strongest and late.max() >= LASTING * strongest
    first = int(np.flatnonzero(shares >= NEARLY * strongest)[0])
    known = len(shares) >= 4 and shares[first] > noise[first] and strongest >= LASTING * shares.max()
    return first if known and (returns or _stays(shares)) else None


def _stays(shares: Array) -> bool:
    """Whether each lag explains everything, the late ones as much as the early."""
    early, late = _halve(shares)
    return bool(len(shares) >= 4 and shares.min() > ALL and late.max() >= early.max())


def _halve(shares: Array) -> tuple[Array, Array]:
    """The first half of the lags, and the last quarter."""
    return shares[: (len(shares) + 1) // 2], shares[3 * len(shares) // 4 :]


def _correlations(values: Array, lengths: NDArray[np.int64], lags: NDArray[np.int64]) -> Array:
    """Means of products at each lag and feature, over pairs within a sequence, relative to the variance."""
    room = int(lags[-1])
    starts = np.cumsum(lengths + room) - (lengths + room)
    # As many zeros as the longest lag separate the sequences, so that no product reaches from one to another.
    apart = np.zeros((int((lengths + room).sum()), values.shape[1]))
    apart[np.arange(len(values)) + np.repeat(starts - (np.cumsum(lengths) - lengths), lengths)] = values
    spectrum = np.fft.rfft(apart, axis=0)
    products = np.fft.irfft(np.square(np.abs(spectrum)), len(apart), axis=0)[lags]
    variance = np.square(values).mean(0)
    means: Array = products / _count_pairs(lengths, lags)[:, None]
    return np.where(variance > 0, means / np.where(variance > 0, variance, 1.0), 0.0)


def _information(before: Ids, after: Ids, within: NDArray[np.bool_], size: int) -> float:
    """I in nats between two columns of ids below `size`, corrected for its bias."""
    pairs = before[within].astype(np.int64) * size + after[within]
    table = np.bincount(pairs, minlength=size * size).reshape(size, size)
    rows, columns = table.sum(1), table.sum(0)
    plain = _entropy(rows) + _entropy(columns) - _entropy(table.ravel())
    filled = np.count_nonzero(table) - np.count_nonzero(rows) - np.count_nonzero(columns) + 1
    return plain - filled / (2 * len(pairs))


def _entropy(counts: NDArray[np.int64]) -> float:
    share = counts[counts > 0] / counts.sum()
    return float(-(share * np.log(share)).sum())


def _merge(ids: Ids, size: int) -> Ids:
    """Ids below `size`: the most frequent tokens first, all others the last one."""
    _, places, counts = np.unique(ids, return_inverse=True, return_counts=True)
    rank = np.empty(len(counts), np.int64)
    rank[np.argsort(-counts, kind="stable")] = np.arange(len(counts))
    found: Ids = np.minimum(rank, size - 1)[places.ravel()]
    return found


def _standard(values: Array, line: bool = True) -> Array:
    """Each column with mean 0 and, unless it is constant, deviation 1; without its straight line, if asked."""
    rest = values - values.mean(0)
    if line and len(values) > 2:
        time = np.arange(len(values)) - (len(values) - 1) / 2
        rest = rest - time[:, None] * (time @ rest / (time @ time))
    deviation = rest.std(0)
    alive = deviation > 1e-12 * np.abs(values).max(0, initial=0.0)
    return np.where(alive, rest / np.where(alive, deviation, 1.0), 0.0)


def _at_most(sequences: Sequence[NDArray[Any]]) -> list[NDArray[Any]]:
    """The first sequences, at most STEPS steps in all, without empty ones."""
    found, left = [], STEPS
    for one in sequences:
        if len(one) and left:
            found.append(one[:left])
            left -= len(found[-1])
    return found


def _lay_out(parts: Sequence[NDArray[Any]], limit: int | None) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The length of each sequence, and the lags to measure."""
    lengths = np.array([len(one) for one in parts], np.int64)
    return lengths, np.arange(1, _longest(lengths, limit) + 1)


def _longest(lengths: NDArray[np.int64], limit: int | None) -> int:
    """The longest lag that has enough pairs."""
    total = int(lengths.sum())
    most = min(limit or LONGEST, int(lengths.max(initial=1)) - 1)
    enough = _count_pairs(lengths, np.arange(1, most + 1)) >= max(PAIRS, PART * total)
    return int(enough.sum())


def _count_pairs(lengths: NDArray[np.int64], lags: NDArray[np.int64]) -> NDArray[np.int64]:
    """Pairs of steps within a sequence at each lag."""
    ordered = np.sort(lengths)
    sums = np.concatenate([[0], np.cumsum(ordered)])
    shorter = np.searchsorted(ordered, lags, side="right")
    found: NDArray[np.int64] = sums[-1] - sums[shorter] - lags * (len(ordered) - shorter)
    return found


def _spread(longest: int) -> NDArray[np.int64]:
    """Every lag at first, then fewer and fewer."""
    later = EACH * 2 ** (np.arange(1, 20 * IN_A_DOUBLING) / IN_A_DOUBLING)
    lags = np.unique(np.concatenate([np.arange(1, EACH + 1), np.round(later), [longest]]).astype(np.int64))
    return lags[(lags >= 1) & (lags <= longest)]


def _check(sequences: Sequence[NDArray[Any]], ndim: int, problem: str, remedy: str, limit: int | None) -> None:
    if any(one.ndim != ndim for one in sequences):
        raise ShapeError.of("sequences", [one.shape for one in sequences][:3], problem, remedy)
    if limit is not None:
        _check_limit(limit)


def _check_limit(limit: Any) -> None:
    if isinstance(limit, bool) or not isinstance(limit, int | np.integer) or limit < 1:
        raise ArgumentError.of("limit", limit, "is not a lag", "Give an integer of at least 1")
