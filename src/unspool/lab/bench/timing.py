"""Interleaved timing: every contestant has a turn in every round, so that they share the machine's moods."""

from __future__ import annotations

import gc
import math
import random
import statistics
import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from unspool.lab.bench.idle import wait_for_idle_threads

Call = Callable[[], Any]
Key = TypeVar("Key", bound=Hashable)

#: A turn of less than this many seconds is repeated within the turn: a clock is no better than its ticks.
TURN = 0.005
#: Calls shorter than this are run unmeasured for a moment first: until the threads are awake and the caches warm.
SHORT, SETTLE = 0.03, 0.005
#: Before the first round each contestant runs unmeasured for this long: some measure first how to do it.
PRACTICE = 0.25


@dataclass(frozen=True)
class Spread:
    """The median of some samples, their quartiles and their number."""

    median: float
    low: float
    high: float
    count: int

    @classmethod
    def of(cls, samples: Sequence[float]) -> Spread:
        if len(samples) == 1:
            return cls(samples[0], samples[0], samples[0], 1)
        low, median, high = statistics.quantiles(samples, n=4, method="inclusive")
        return cls(median, low, high, len(samples))


def interleave(calls: Mapping[Key, Call], rounds: int) -> dict[Key, Spread]:
    """Seconds a call of each contestant: in each round, in an order that changes, each has one turn."""
    typical = {}
    for key, call in calls.items():
        wait_for_idle_threads()
        typical[key] = _typical(call)
    samples: dict[Key, list[float]] = {key: [] for key in calls}
    gc.collect()
    for number in range(rounds):
        order = random.Random(number).sample(list(calls), len(calls))
        for key in order:
            wait_for_idle_threads()
            if typical[key] < SHORT:
                _run_for(SETTLE, calls[key])
            samples[key].append(seconds(calls[key], max(1, math.ceil(TURN / typical[key]))))
    return {key: Spread.of(values) for key, values in samples.items()}


def seconds(call: Call, repetitions: int = 1) -> float:
    """Seconds a call, garbage collection aside."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        start = time.perf_counter()
        for _ in range(repetitions):
            call()
        return (time.perf_counter() - start) / repetitions
    finally:
        if enabled:
            gc.enable()


def _typical(call: Call) -> float:
    """The call's time, for planning, after some practice; the first call, which may compile, is not counted."""
    call()
    _run_for(PRACTICE, call)
    return max(min(seconds(call) for _ in range(2)), 1e-7)


def _run_for(duration: float, call: Call) -> None:
    end = time.perf_counter() + duration
    while time.perf_counter() < end:
        call()
