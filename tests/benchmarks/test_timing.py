"""Timing on a clock that the test turns: what is counted, how often, and in what order."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from unspool.lab.bench import timing
from unspool.lab.bench.timing import PRACTICE, SETTLE, SHORT, TURN, Spread, interleave


class Clock:
    """A clock that stands still unless a call turns it."""

    def __init__(self) -> None:
        self.now = 0.0
        self.log: list[str] = []

    def perf_counter(self) -> float:
        return self.now

    def call(self, name: str, *durations: float) -> Callable[[], None]:
        """A contestant that takes these seconds, one after the other, and the last ever after."""
        calls = iter(durations)
        last = durations[-1]

        def run() -> None:
            self.log.append(name)
            self.now += next(calls, last)

        return run


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(timing, "time", clock)
    return clock


@pytest.mark.parametrize("count", [1, 2, 3, 10, 15])
def test_spread_is_numpys(count: int) -> None:
    samples = np.random.default_rng(count).uniform(1, 2, count)
    spread = Spread.of(samples.tolist())
    expected = np.percentile(samples, [25, 50, 75])
    np.testing.assert_allclose([spread.low, spread.median, spread.high], expected, rtol=1e-12)
    assert spread.count == count


def test_seconds_of_each_contestant(clock: Clock) -> None:
    times = interleave({"slow": clock.call("slow", 2.0), "fast": clock.call("fast", 0.5)}, rounds=5)
    assert (times["slow"].median, times["fast"].median) == pytest.approx((2.0, 0.5), rel=1e-12)
    assert {spread.count for spread in times.values()} == {5}


def test_the_first_call_is_not_counted(clock: Clock) -> None:
    times = interleave({"compiles": clock.call("compiles", 60.0, 1.0)}, rounds=3)
    assert times["compiles"] == Spread(1.0, 1.0, 1.0, 3)


def test_every_contestant_has_one_turn_a_round(clock: Clock) -> None:
    names = ("a", "b", "c")
    interleave({name: clock.call(name, 1.0) for name in names}, rounds=8)
    turns = clock.log[-3 * 8 :]
    rounds = [tuple(turns[start : start + 3]) for start in range(0, 24, 3)]
    assert all(sorted(one) == list(names) for one in rounds)
    assert len(set(rounds)) > 1  # nobody always follows the same neighbour


def test_short_calls_settle_and_are_repeated(clock: Clock) -> None:
    duration = TURN / 10
    assert duration < SHORT
    times = interleave({"short": clock.call("short", duration)}, rounds=1)
    planning, practice, settling, turn = 3, round(PRACTICE / duration), round(SETTLE / duration), 10
    assert len(clock.log) == pytest.approx(
        planning + practice + settling + turn, abs=1
    )  # sums of a float hit the end or not
    assert times["short"].median == pytest.approx(duration, rel=1e-9)


def test_long_calls_run_once_a_turn(clock: Clock) -> None:
    interleave({"long": clock.call("long", 1.0)}, rounds=4)
    planning, practice = 3, 1
    assert len(clock.log) == planning + practice + 4
