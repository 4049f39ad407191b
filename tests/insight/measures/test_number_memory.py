"""The memory of numbers: partial autocorrelations in closed form, systems whose order is known, seasons and drift."""

from __future__ import annotations

import math
import tracemalloc

import numpy as np
import pytest
from tests.insight.known_systems import make_autoregression, make_season, make_slow_waves

from unspool.insight.measures import number_memory
from unspool.insight.measures.number_memory import measure_numbers, measure_partial


def find_memory(values: np.ndarray) -> int:
    return measure_numbers([values.reshape(len(values), -1)], detrend=True).memory


def test_gains_are_those_of_the_partial_autocorrelation() -> None:
    """x_t = 0.5 x_{t−1} − 0.4 x_{t−2} + noise has ρ₁ = 0.5 / 1.4 and ρ₂ = −0.4, and none beyond."""
    gains, _ = measure_partial([make_autoregression({1: 0.5, 2: -0.4}, 60_000, 0)[:, None]], 6)
    exact = [-0.5 * math.log(1 - rho**2) for rho in (0.5 / 1.4, -0.4, 0, 0, 0, 0)]
    np.testing.assert_allclose(gains, exact, atol=0.006)


def test_gains_of_several_features_are_those_of_a_regression_on_all_of_them() -> None:
    chance = np.random.default_rng(0)
    values = np.zeros((4000, 2))
    for step in range(1, 4000):
        values[step] = np.array([[0.7, 0.5], [-0.4, 0.6]]) @ values[step - 1] + chance.normal(size=2)
    values -= values.mean(0)
    before, after = values[:-1], values[1:]
    rest = after - before @ np.linalg.lstsq(before, after, rcond=None)[0]
    exact = 0.5 * math.log(np.linalg.det(after.T @ after) / np.linalg.det(rest.T @ rest))
    gains, _ = measure_partial([values], 3)
    assert gains[0] == pytest.approx(exact, rel=1e-9)
    assert measure_numbers([values]).memory == 1  # each feature by itself needs more


ORDERS = {"AR(1), 0.5": {1: 0.5}, "AR(1), 0.99": {1: 0.99}, "AR(3)": {1: 0.5, 2: -0.4, 3: 0.4}, "lag 30": {30: 0.8}}


@pytest.mark.parametrize("name", ORDERS)
@pytest.mark.parametrize("steps", [300, 1000, 5000])
def test_the_order_of_an_autoregression_is_found(name: str, steps: int) -> None:
    found = [find_memory(make_autoregression(ORDERS[name], steps, seed)) for seed in range(4)]
    assert found.count(max(ORDERS[name])) >= 3


@pytest.mark.parametrize("period", [12, 50])
@pytest.mark.parametrize("steps", [300, 1000])
def test_a_season_with_a_trend_is_its_period(period: int, steps: int) -> None:
    assert [find_memory(make_season(period, steps, seed)) for seed in range(3)] == [period] * 3


def test_a_long_season_takes_little_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """A matrix of all steps by all phases would take 27 MB."""
    monkeypatch.setattr(number_memory, "_common_season", lambda _: 168)  # which takes as much for any length
    values = make_season(168, 20_000, 0)
    tracemalloc.start()
    try:
        found = find_memory(values)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert found == 168
    assert peak < 10e6


def test_a_wave_without_noise_is_known_from_two_steps() -> None:
    """sin(a + w) = 2 cos(w) sin(a) − sin(a − w)."""
    assert find_memory(np.sin(2 * np.pi * np.arange(5000) / 50)) in (2, 3)
    noisy = np.sin(2 * np.pi * np.arange(600) / 12) + 0.2 * np.random.default_rng(0).normal(size=600)
    assert find_memory(noisy) == 12


@pytest.mark.parametrize("steps", [1000, 4000])
def test_a_level_that_drifts_is_no_memory(steps: int) -> None:
    found = measure_numbers([make_slow_waves(steps, 0)[:, None]], detrend=True)
    assert (found.memory, found.drift > 0.5) == (0, True)
    walk = np.random.default_rng(0).normal(size=steps).cumsum()
    assert find_memory(walk) == 1


def test_noise_has_a_memory_in_less_than_one_case_in_twenty() -> None:
    """With a chance of 5 % each, more than 6 of 60 would come once in 20 times; of heavy tails as well."""
    chance = [np.random.default_rng(seed) for seed in range(60)]
    several = [one.normal(size=400) if seed % 2 else one.standard_t(3, 400) for seed, one in enumerate(chance)]
    assert sum(find_memory(one) > 0 for one in several) <= 3


def test_sequences_are_not_joined() -> None:
    chance = np.random.default_rng(0)
    several = [np.repeat(chance.normal(), 2)[:, None] for _ in range(400)]  # equal within pairs
    found = measure_numbers(several)
    assert found.memory == 1
    assert found.gain > 3


def test_nothing_to_learn() -> None:
    for values in (np.zeros((0, 1)), np.ones((300, 1)), np.arange(300.0)[:, None]):
        assert measure_numbers([values], detrend=True).memory == 0
