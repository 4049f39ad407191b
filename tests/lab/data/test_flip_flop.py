"""The flip-flop: each target is the latest pulse of its channel, found by a loop."""

from __future__ import annotations

import pytest

from unspool.errors import ArgumentError
from unspool.lab.data import flip_flop


def test_targets_are_the_latest_pulses() -> None:
    x, y = flip_flop(50, 4, bits=2, probability=0.2, seed=3)
    for row in range(4):
        for bit in range(2):
            latest = 0.0
            for step in range(50):
                latest = float(x[step, row, bit]) or latest
                assert y[step, row, bit] == latest


def test_pulses_are_as_frequent_as_asked_and_balanced() -> None:
    x, _ = flip_flop(1000, 20, bits=3, probability=0.1)
    assert abs((x[1:] != 0).mean() - 0.1) < 0.01
    assert abs(x.mean()) < 0.01
    assert (x[0] != 0).all()
    assert not flip_flop(9, 2, probability=0.0)[0][1:].any()


def test_an_impossible_probability_is_refused() -> None:
    with pytest.raises(ArgumentError, match="probability"):
        flip_flop(9, 2, probability=1.5)
