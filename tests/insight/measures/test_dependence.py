"""Dependence by lag: closed forms of processes, explicit counting on small ragged data, and no memory in noise."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from unspool.errors import ArgumentError, ShapeError
from unspool.insight.measures import dependence
from unspool.insight.measures.dependence import Array, measure_autocorrelation, measure_mutual_information


def autoregression(phi: float, steps: int, seed: int = 0) -> Array:
    chance = np.random.default_rng(seed).standard_normal(steps)
    chance[0] /= math.sqrt(1 - phi * phi)
    for step in range(1, steps):
        chance[step] += phi * chance[step - 1]
    return chance[:, None]


def chain(transition: Array, steps: int, seed: int = 0) -> NDArray[np.int64]:
    bounds = np.cumsum(transition, 1)
    draws, state, found = np.random.default_rng(seed).random(steps), 0, np.empty(steps, np.int64)
    for step, draw in enumerate(draws):
        state = int(np.searchsorted(bounds[state], draw))
        found[step] = state
    return found


@pytest.mark.parametrize("phi", [0.5, 0.9, -0.7])
def test_an_autoregression_is_the_powers_of_phi(phi: float) -> None:
    steps = 40_000
    found = measure_autocorrelation([autoregression(phi, steps)], 12)
    deviation = math.sqrt((1 + phi * phi) / (1 - phi * phi) / steps)  # Bartlett's, of a long lag: the largest
    np.testing.assert_allclose(found.values, phi ** np.arange(1, 13), rtol=0, atol=4 * deviation)
    np.testing.assert_allclose(found.shares, found.values**2)


@pytest.mark.parametrize("phi", [0.5, 0.9])
def test_the_memory_of_an_autoregression_is_where_its_share_falls_to_a_hundredth(phi: float) -> None:
    found = measure_autocorrelation([autoregression(phi, 100_000)], 200)
    exact = 1 + math.floor(math.log(dependence.SHARE) / (2 * math.log(phi)))  # φ^2k ≥ φ²/100
    assert abs(found.memory - exact) <= 0.15 * exact + 1
    assert not found.censored
    assert not found.repeats


def test_autocorrelation_is_a_mean_over_pairs_within_sequences() -> None:
    chance = np.random.default_rng(3)
    several = [chance.normal(size=(steps, 2)).cumsum(0) for steps in (90, 70, 3, 1, 80)]
    found = measure_autocorrelation(several, 20)
    flat = np.concatenate(several)
    mean, variance = flat.mean(0), flat.var(0)
    assert found.lags.tolist() == list(range(1, 21))
    for lag, value in zip(found.lags, found.values, strict=True):
        products = [(one[t] - mean) * (one[t + lag] - mean) for one in several for t in range(len(one) - lag)]
        by_feature = np.mean(products, 0) / variance
        assert value == pytest.approx(by_feature[np.abs(by_feature).argmax()], rel=1e-9)


def test_a_line_is_taken_off_each_series() -> None:
    steps = np.arange(2000.0)
    noise = np.random.default_rng(0).normal(size=(2, 2000, 1))
    series = [5 + 0.1 * steps[:, None] + noise[0], 1e6 - 300 * steps[:, None] + 1000 * noise[1]]
    assert measure_autocorrelation(series, 50).memory > 40
    assert measure_autocorrelation(series, 50, detrend=True).memory == 0


@pytest.mark.parametrize("period", [2, 5, 24])
def test_a_period_in_numbers_is_found_as_such(period: int) -> None:
    wave = np.random.default_rng(period).normal(size=period)
    steps = 40 * period
    found = measure_autocorrelation([np.tile(wave, steps // period)[:, None]], 10 * period)
    np.testing.assert_allclose(found.values[period - 1 :: period], 1.0, rtol=1e-10)
    centerd = wave - wave.mean()
    exact = centerd @ np.roll(centerd, -1) / (centerd @ centerd)
    assert found.values[10 * period - period] == pytest.approx(exact, abs=2 / 30)
    assert (found.memory, found.repeats) == (period, True)


def test_a_season_in_noise_is_found() -> None:
    chance = np.random.default_rng(1)
    found = measure_autocorrelation([(np.tile(chance.normal(size=24), 40) + 0.3 * chance.normal(size=960))[:, None]])
    assert (found.memory, found.repeats, found.censored) == (24, True, False)


@pytest.mark.parametrize("steps", [96, 600, 2000])
@pytest.mark.parametrize("noise", [0.0, 0.2])
def test_a_wave_repeats_after_its_period_not_after_half_of_it(steps: int, noise: float) -> None:
    wave = np.sin(2 * np.pi * np.arange(steps) / 12 + 0.3) + noise * np.random.default_rng(0).normal(size=steps)
    found = measure_autocorrelation([wave[:, None]], detrend=True)
    assert found.values[5] < -0.8  # half a period later: as strong, and reversed
    assert (found.memory, found.repeats, found.censored) == (12, True, False)
    assert found.values[11] > 0.8


def test_a_slow_wave_repeats_after_its_period_not_after_a_step() -> None:
    wave = np.sin(2 * np.pi * np.arange(2000) / 100)
    found = measure_autocorrelation([wave[:, None]])
    assert found.values[0] > 0.99
    assert (found.memory, found.repeats) == (100, True)


def test_a_season_must_be_seen_to_return_twice() -> None:
    wave = np.sin(2 * np.pi * np.arange(2000) / 100)[:, None]
    assert measure_autocorrelation([wave], 200).memory == 100
    assert not measure_autocorrelation([wave], 190).repeats
    bow = np.square(np.linspace(-1, 1, 500))[:, None]
    assert not measure_autocorrelation([bow]).repeats


@pytest.mark.parametrize("seed", range(10))
def test_a_random_walk_does_not_repeat(seed: int) -> None:
    walk = np.random.default_rng(seed).normal(size=(400, 1)).cumsum(0)
    assert not measure_autocorrelation([walk], detrend=True).repeats


def test_levels_that_stay_are_known_after_a_step() -> None:
    found = measure_autocorrelation([np.full((50, 1), level) for level in (-1.0, 0.5, 3.0) * 5])
    assert (found.memory, found.repeats) == (1, True)


def test_a_markov_chain_has_the_information_of_its_powers() -> None:
    transition = np.array([[0.8, 0.15, 0.05], [0.1, 0.6, 0.3], [0.3, 0.1, 0.6]])
    values, vectors = np.linalg.eig(transition.T)
    stationary = np.real(vectors[:, np.argmax(values.real)])
    stationary /= stationary.sum()
    steps = 40_000
    found = measure_mutual_information([chain(transition, steps)], 12)
    for lag in range(1, 13):
        after = np.linalg.matrix_power(transition, lag)
        exact = float((stationary[:, None] * after * np.log(after / stationary)).sum())
        # the estimate's deviation is about √(2 I var / N); three of them, and its own bias of (3 − 1)² / 2N
        assert found.values[lag - 1] == pytest.approx(exact, abs=4 * math.sqrt(2 * exact / steps) + 4 / steps)
    entropy = -(stationary * np.log(stationary)).sum()
    np.testing.assert_allclose(found.shares[:5], found.values[:5] / entropy, rtol=0.01)
    assert 3 <= found.memory <= 10


def by_hand(sequences: Any, lag: int) -> float:
    pairs = [(one[t], one[t + lag]) for one in sequences for t in range(len(one) - lag)]
    joint, left, right = Counter(pairs), Counter(a for a, _ in pairs), Counter(b for _, b in pairs)
    count = len(pairs)
    plain = sum(n / count * math.log(n * count / (left[a] * right[b])) for (a, b), n in joint.items())
    return plain - (len(joint) - len(left) - len(right) + 1) / (2 * count)


def test_mutual_information_counts_pairs_within_sequences() -> None:
    chance = np.random.default_rng(5)
    several = [chance.integers(0, 3, steps) for steps in (400, 1, 350, 2, 500)]
    found = measure_mutual_information(several, 60)
    assert found.lags.tolist() == list(range(1, 61))
    for lag, value in zip(found.lags, found.values, strict=True):
        assert value == pytest.approx(by_hand([one.tolist() for one in several], int(lag)), rel=1e-9, abs=1e-12)


def test_rare_tokens_count_as_one() -> None:
    chance = np.random.default_rng(6)
    ids = chance.zipf(1.5, 3000) % 1000
    found = measure_mutual_information([ids], 3)
    size = math.floor(math.sqrt((3000 - 3) / dependence.FILLED))
    commonest = [token for token, _ in Counter(ids.tolist()).most_common(size - 1)]
    counts = sorted(Counter(ids.tolist()).values(), reverse=True)
    assert counts[size - 2] > counts[size - 1]  # so that it is clear which are kept
    merged = [commonest.index(one) if one in commonest else -1 for one in ids.tolist()]
    for lag, value in zip(found.lags, found.values, strict=True):
        assert value == pytest.approx(by_hand([merged], int(lag)), rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("period", [2, 3, 7])
def test_a_period_in_tokens_tells_everything_at_every_lag(period: int) -> None:
    steps = 600 * period
    found = measure_mutual_information([np.tile(np.arange(period), steps // period)], 10 * period)
    whole = found.lags % period == 0
    pairs = steps - found.lags[whole]
    np.testing.assert_allclose(found.values[whole], math.log(period) + (period - 1) / (2 * pairs), rtol=1e-12)
    np.testing.assert_allclose(found.shares, 1.0, atol=0.01)
    assert (found.memory, found.repeats) == (1, True)
    long = measure_mutual_information([np.tile(np.arange(period), steps // period)])  # chance grows with the lags
    assert (long.memory, long.repeats) == (1, True)


@pytest.mark.parametrize("seed", range(5))
def test_noise_has_no_memory(seed: int) -> None:
    chance = np.random.default_rng(seed)
    assert measure_autocorrelation([chance.normal(size=(3000, 2))]).memory == 0
    assert measure_mutual_information([chance.integers(0, 30, 10_000)], 100).memory == 0
    assert measure_mutual_information([chance.integers(0, 30, 12) for _ in range(300)]).memory == 0


def test_what_lies_a_fixed_distance_back_is_found() -> None:
    chance = np.random.default_rng(2)
    ids = chance.integers(0, 4, 20_000)
    ids[17:] = np.where(chance.random(20_000 - 17) < 0.6, ids[:-17], ids[17:])
    found = measure_mutual_information([ids], 30)
    assert (found.memory, found.censored) == (17, False)
    assert found.lags[found.shares.argmax()] == 17


def test_a_dependence_to_the_longest_lag_is_censored() -> None:
    for phi in (0.97, 0.995):  # the second has hardly begun to fade, and does not repeat for that
        found = measure_autocorrelation([autoregression(phi, 20_000)], 20)
        assert (found.memory, found.censored, found.repeats) == (20, True, False)


@pytest.mark.parametrize("sequences", [[], [np.zeros(0, np.int64)], [np.zeros(1, np.int64)] * 50])
def test_nothing_to_compare(sequences: list[NDArray[np.int64]]) -> None:
    numbers = [one[:, None].astype(np.float64) for one in sequences]
    for found in (measure_mutual_information(sequences), measure_autocorrelation(numbers)):
        assert (found.memory, len(found.lags), found.censored) == (0, 0, False)


def test_a_constant_tells_nothing() -> None:
    assert measure_mutual_information([np.zeros(500, np.int64)]).memory == 0
    found = measure_autocorrelation([np.full((500, 1), 1e9 + 0.1)], detrend=True)
    assert found.memory == 0
    assert not found.shares.any()


def test_long_data_is_read_in_part(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dependence, "STEPS", 1000)
    ids = np.concatenate([np.random.default_rng(0).integers(0, 2, 700), np.zeros(2000, np.int64)])
    found = measure_mutual_information([ids[:700], ids[700:]], 5)
    expected = measure_mutual_information([ids[:700], ids[700:1000]], 5)
    np.testing.assert_array_equal(found.values, expected.values)


def test_wrong_arguments_are_refused() -> None:
    for limit in (0, -1, True, 2.5):
        with pytest.raises(ArgumentError, match="limit"):
            measure_mutual_information([np.zeros(5, np.int64)], limit)  # type: ignore[arg-type]
    with pytest.raises(ShapeError):
        measure_autocorrelation([np.zeros(5)])
    with pytest.raises(ShapeError):
        measure_mutual_information([np.zeros((5, 1), np.int64)])
