"""Counting of contexts: against plain dictionaries, and against entropies of chains in closed form."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from tests.insight.known_systems import make_markov, make_xor

from unspool.insight.measures import counting
from unspool.insight.measures.counting import make_stream, measure_orders, mix, refine


def test_a_stream_keeps_the_ends_of_sequences_and_merges_rare_tokens() -> None:
    stream = make_stream([np.array([5, 5, 8, 5]), np.array([8, 9, 1])], most=6, tokens=3)
    assert stream.ids.tolist() == [0, 0, 1, 0, 1, 2]
    assert stream.age.tolist() == [0, 1, 2, 3, 0, 1]
    assert stream.back(1).tolist() == [3, 0, 0, 1, 3, 1]
    assert stream.back(2).tolist() == [3, 3, 0, 0, 3, 3]


def test_the_estimate_is_witten_and_bells_from_the_other_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counting, "mix", lambda _stream, _below, estimate, _bucket: estimate)
    ids = np.random.default_rng(0).integers(0, 3, 80)
    stream = make_stream([ids], 80)
    below = np.random.default_rng(1).uniform(0.1, 0.9, 80)
    found, seen = refine(stream, below, stream.back(1))
    before, covered = stream.back(1).tolist(), 0
    for step in range(80):
        others = [one for one in range(80) if one // 20 != step // 20 and before[one] == before[step]]
        after = Counter(int(stream.ids[one]) for one in others)
        kinds, token = len(after), int(stream.ids[step])
        exact = (after[token] + kinds * below[step]) / (len(others) + kinds) if others else below[step]
        covered += bool(others)
        assert found[step] == pytest.approx(exact, rel=1e-12)
    assert seen == covered / 80


def test_a_mixture_finds_the_better_prediction() -> None:
    stream = make_stream([np.random.default_rng(0).integers(0, 2, 4000)], 4000)
    bad, good, bucket = np.full(4000, 0.5), np.full(4000, 0.9), np.zeros(4000, np.int64)
    assert mix(stream, bad, good, bucket).min() > 0.88
    assert mix(stream, good, bad, bucket).min() > 0.88


def test_losses_are_the_entropies_of_a_chain() -> None:
    orders = measure_orders(make_stream([make_xor(40_000, 0, flipped=0.1)], 40_000))
    noise = -(0.1 * np.log(0.1) + 0.9 * np.log(0.9))  # of the flips: all that is left from three steps on
    for order, exact in enumerate([np.log(2), np.log(2), np.log(2), noise, noise]):
        assert orders.losses[order].mean() == pytest.approx(exact, abs=0.015)


def test_longer_contexts_are_not_tried_for_ever() -> None:
    orders = measure_orders(make_stream([make_markov(1, 4, 20_000, 0)], 20_000))
    assert orders.best in (1, 2)
    assert len(orders.losses) <= counting.EACH + 1
    rare = measure_orders(make_stream([np.random.default_rng(0).integers(0, 400, 3000)], 3000))
    assert len(rare.losses) < 4  # contexts do not come again


def test_probabilities_are_probabilities() -> None:
    stream = make_stream([make_markov(2, 3, 300, 1)], 300)
    for loss in measure_orders(stream).losses:
        assert (loss > 0).all()
        assert np.isfinite(loss).all()
