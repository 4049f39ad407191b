"""The chain of tags against every sequence of tags, counted out."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest

from unspool.errors import ArgumentError
from unspool.runtime.crf import ChainPlayer
from unspool.runtime.network import Chain

TAGS, LENGTHS = 3, np.array([4, 1, 0, 2])


def make(allowed: Any = None) -> tuple[ChainPlayer, Any]:
    """A chain with random scores, and emissions with what must not be read beyond the end."""
    numbers = np.random.default_rng(3)
    chain = Chain(*(numbers.normal(size=shape) for shape in (TAGS, (TAGS, TAGS), TAGS)))
    emissions = numbers.normal(size=(4, len(LENGTHS), TAGS))
    for row, length in enumerate(LENGTHS):
        emissions[length:, row] = np.nan
    return ChainPlayer(chain, allowed), emissions


def some_allowed() -> Any:
    allowed = np.ones((TAGS + 2, TAGS + 2), bool)
    allowed[0, 1] = allowed[TAGS, 2] = allowed[1, TAGS + 1] = False
    return allowed


def weigh(player: ChainPlayer, emissions: Any, tags: tuple[int, ...]) -> float:
    """exp(score) of one sequence, term by term."""
    chain, allowed = player.own, player.allowed
    path = [TAGS, *tags, TAGS + 1]
    if allowed is not None and tags and not all(allowed[pair] for pair in itertools.pairwise(path)):
        return 0.0
    score = sum(emissions[t, tag] for t, tag in enumerate(tags))
    score += sum(chain.transitions[pair] for pair in itertools.pairwise(tags))
    return math.exp(score + (chain.start[tags[0]] + chain.end[tags[-1]] if tags else 0.0))


@pytest.mark.parametrize("allowed", [None, some_allowed()], ids=["all", "some"])
def test_every_sequence_counted_out(allowed: Any) -> None:
    player, emissions = make(allowed)
    decoded, marginals = player.decode(emissions, LENGTHS), player.marginals(emissions, LENGTHS)
    likely = player.log_likelihood(emissions, np.zeros((4, len(LENGTHS)), np.int64), LENGTHS)
    for row, length in enumerate(LENGTHS):
        every = {
            tags: weigh(player, emissions[:, row], tags) for tags in itertools.product(range(TAGS), repeat=int(length))
        }
        total = sum(every.values())
        assert tuple(decoded[row]) == max(every, key=lambda tags: every[tags])
        for t, tag in itertools.product(range(4), range(TAGS)):
            expected = sum(weight for tags, weight in every.items() if t < length and tags[t] == tag) / total
            assert marginals[t, row, tag] == pytest.approx(expected, abs=1e-12)
        assert math.exp(likely[row]) == pytest.approx(every[(0,) * int(length)] / total, rel=1e-12)


def test_what_is_impossible_is_said() -> None:
    allowed = np.zeros((TAGS + 2, TAGS + 2), bool)
    player, emissions = make(allowed)
    with pytest.raises(ArgumentError, match=r"give no best sequence of 4 tag\(s\): the score of sequence 0"):
        player.decode(emissions, LENGTHS)
    with pytest.raises(ArgumentError, match="is not a boolean matrix of 5 rows and columns"):
        make(np.ones((2, 2), bool))


def test_no_steps() -> None:
    player, emissions = make()
    nothing = np.zeros(len(LENGTHS), np.int64)
    assert [len(tags) for tags in player.decode(emissions[:0], nothing)] == [0, 0, 0, 0]
    assert player.marginals(emissions[:0], nothing).shape == (0, 4, TAGS)
    assert not player.log_likelihood(emissions[:0], np.zeros((0, 4), np.int64), nothing).any()
