"""The cost of an update on several machines: sums by hand, and its limits."""

from __future__ import annotations

import pytest

from unspool.errors import ArgumentError
from unspool.learning.scaling import ETHERNET_1G, UpdateCost, break_even_bandwidth, explain_machines


def simulate(cost: UpdateCost, machines: int) -> float:
    """The ring, message by message: every machine sends one part at a time to the next, all at once."""
    part, clock = cost.size / machines, 0.0
    for _ in ("sum", "hand out"):
        for _ in range(machines - 1):
            clock += cost.latency + part / cost.bandwidth
    return cost.fixed + cost.row * max(len(range(rank, cost.rows, machines)) for rank in range(machines)) + clock


@pytest.mark.parametrize("machines", [1, 2, 3, 7, 64, 256])
def test_seconds_are_those_of_a_simulated_ring(machines: int) -> None:
    cost = UpdateCost(96, 0.003, 0.0011, 5_000_000, 4e-5, 1.2e9)
    assert cost.seconds(machines) == pytest.approx(simulate(cost, machines))


def test_costs_are_fitted_to_two_measurements() -> None:
    cost = UpdateCost.fit((16, 0.020), (32, 0.036), 1000, (1e-5, 1e9))
    assert [cost.fixed, cost.row, cost.rows] == pytest.approx([0.004, 0.001, 32])
    assert UpdateCost.fit((16, 0.03), (32, 0.02), 1, (0, 1)).row == 0  # noise


def test_break_even_moves_with_the_connection() -> None:
    slow = UpdateCost(64, 0.0, 0.0005, 40_000_000, *ETHERNET_1G)
    assert slow.break_even() is None
    assert slow.best() == 1
    fast = UpdateCost(64, 0.0, 0.0005, 40_000_000, 1e-6, 1e11)
    assert fast.break_even() == 2
    assert 2 < fast.best() <= 64  # there are no more rows than 64 to divide


def test_two_machines_break_even_at_the_bandwidth_that_is_told() -> None:
    bandwidth = break_even_bandwidth(0.05, 8_000_000)
    for factor, faster in ((0.9, False), (1.1, True)):
        cost = UpdateCost(50, 0.0, 0.001, 8_000_000, 0.0, factor * bandwidth)
        assert (cost.speedup(2) > 1) is faster


def test_words() -> None:
    assert "two are faster than one from 80 Mbit/s" in explain_machines(0.1, 500_000)
    assert explain_machines(0.001, 100_000_000).startswith("train on one")


def test_impossible_costs_are_refused() -> None:
    with pytest.raises(ArgumentError, match="rows.* is not above 0"):
        UpdateCost(0, 0, 0, 0, 0, 1)
    with pytest.raises(ArgumentError, match="latency.* is negative"):
        UpdateCost(1, 0, 0, 0, -1, 1)
