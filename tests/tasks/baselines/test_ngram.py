"""NGram against probabilities by hand and a slow, exact twin in fractions."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from unspool.errors import ArgumentError, ArgumentTypeError, ShapeError
from unspool.tasks.baselines.ngram import NGram


class Twin:
    """Witten and Bell's recursion as it is written, over dictionaries of tuples."""

    def __init__(self, order: int, vocabulary_size: int, sequences: Sequence[Sequence[int]]) -> None:
        self.order, self.vocabulary_size = order, vocabulary_size
        self.counts: dict[tuple[int, ...], Counter[int]] = {}
        for ids in sequences:
            for t, word in enumerate(ids):
                for k in range(min(order, t + 1)):
                    self.counts.setdefault(tuple(ids[t - k : t]), Counter())[word] += 1

    def probability(self, word: int, context: Sequence[int]) -> Fraction:
        p = Fraction(1, self.vocabulary_size)
        for k in range(min(self.order, len(context) + 1)):
            after = self.counts.get(tuple(context[len(context) - k :]))
            if after:
                p = (after[word] + len(after) * p) / (after.total() + len(after))
        return p


def test_by_hand() -> None:
    model = NGram(2, 3).fit([0, 1, 0, 1, 2])
    np.testing.assert_allclose(model.distribution(), [3 / 8, 3 / 8, 2 / 8], rtol=1e-15)
    np.testing.assert_allclose(model.distribution([0]), [3 / 24, 19 / 24, 2 / 24], rtol=1e-15)
    np.testing.assert_allclose(model.distribution([1]), [(1 + 6 / 8) / 4, (6 / 8) / 4, (1 + 4 / 8) / 4], rtol=1e-15)
    np.testing.assert_allclose(model.distribution([2]), model.distribution(), rtol=1e-15)  # 2 has no successor
    np.testing.assert_allclose(np.exp(model.log_probability([1, 0, 1])), [3 / 8, 1.75 / 4, 19 / 24], rtol=1e-14)
    assert math.isclose(model.perplexity([1, 0, 1]), (3 / 8 * 1.75 / 4 * 19 / 24) ** (-1 / 3), rel_tol=1e-14)


words = st.integers(0, 4)
sequences = st.lists(st.lists(words, max_size=12), max_size=5)


@given(sequences, st.lists(words, max_size=15), st.integers(1, 4), st.integers(5, 9))
@settings(max_examples=150, deadline=None)
def test_equals_the_twin_and_sums_to_one(
    train: list[list[int]], ids: list[int], order: int, vocabulary_size: int
) -> None:
    model, twin = NGram(order, vocabulary_size), Twin(order, vocabulary_size, train)
    for sequence in train:
        model.fit(sequence)
    expected = [float(twin.probability(word, ids[:t])) for t, word in enumerate(ids)]
    np.testing.assert_allclose(np.exp(model.log_probability(ids)), expected, rtol=1e-12)
    p = model.distribution(ids)
    assert p.min() > 0
    assert abs(p.sum() - 1) < 1e-12
    np.testing.assert_allclose(p, [float(twin.probability(w, ids)) for w in range(vocabulary_size)], rtol=1e-12)


@given(st.lists(words, max_size=30), st.lists(st.integers(0, 30), max_size=4), st.integers(1, 5))
@settings(max_examples=100, deadline=None)
def test_a_stream_may_come_in_parts(ids: list[int], cuts: list[int], order: int) -> None:
    """Also when questions are asked in between."""
    borders = [0, *sorted(min(cut, len(ids)) for cut in cuts), len(ids)]
    whole, parts = NGram(order, 5).fit(ids), NGram(order, 5)
    for start, end in pairwise(borders):
        parts.fit(ids[start:end], continues=True)
        parts.distribution(ids[:3])
    probe = [*ids, 0, 1, 2, 3, 4]
    np.testing.assert_allclose(parts.log_probability(probe), whole.log_probability(probe), rtol=1e-14, atol=1e-15)


def test_sequences_do_not_run_into_each_other() -> None:
    apart = NGram(2, 3).fit([0, 0]).fit([1, 1])
    assert apart.distribution([0])[1] < NGram(2, 3).fit([0, 0, 1, 1]).distribution([0])[1]
    np.testing.assert_allclose(apart.distribution([0]), NGram(2, 3).fit([1, 1]).fit([0, 0]).distribution([0]))


def test_order_one_is_the_unigram_closed_form() -> None:
    ids = np.random.default_rng(0).integers(0, 7, 200) ** 2 % 11
    counts = np.bincount(ids, minlength=13)
    kinds = np.count_nonzero(counts)
    expected = (counts + kinds / 13) / (len(ids) + kinds)
    model = NGram(1, 13).fit(ids)
    for context in ([], [3], [3, 1, 4]):
        np.testing.assert_allclose(model.distribution(context), expected, rtol=1e-13)
    np.testing.assert_allclose(model.log_probability(ids), np.log(expected[ids]), rtol=1e-13)


@pytest.mark.parametrize("vocabulary_size", [1, 2, 3, 10, 49, 1000, 2**31])
def test_unfitted_is_uniform(vocabulary_size: int) -> None:
    model = NGram(3, vocabulary_size)
    assert model.perplexity([0, 0, vocabulary_size - 1]) == vocabulary_size
    assert model.fit([]).perplexity([0]) == vocabulary_size
    np.testing.assert_allclose(model.log_probability([0]), [-math.log(vocabulary_size)], rtol=1e-15)
    if vocabulary_size <= 1000:
        assert np.all(model.distribution([0]) == 1 / vocabulary_size)


def test_perplexity_falls_to_one_on_what_repeats() -> None:
    ids = np.tile([0, 1, 2, 3], 5000)
    assert 1 < NGram(2, 4).fit(ids).perplexity(ids) < 1.001
    assert NGram(1, 4).fit(ids).perplexity(ids) == pytest.approx(4, rel=1e-12)


def test_a_large_vocabulary_does_not_overflow() -> None:
    """The packed keys of five words of 31 bits would need 155 bits."""
    V = 2**31
    ids = np.random.default_rng(1).integers(V - 9, V, 300)
    model, twin = NGram(5, V).fit(ids), Twin(5, V, [ids.tolist()])
    probe = np.concatenate((ids[100:140], [0, 1, V - 1]))
    expected = [float(twin.probability(int(word), probe[:t].tolist())) for t, word in enumerate(probe)]
    np.testing.assert_allclose(np.exp(model.log_probability(probe)), expected, rtol=1e-12)


def test_a_million_words() -> None:
    ids = np.random.default_rng(0).zipf(1.3, 1_000_000) % 50_000
    model = NGram(5, 50_000)
    start = time.process_time()
    uniform = model.perplexity(ids[:10])
    perplexity = model.fit(ids).perplexity(ids)
    assert 1 < perplexity < uniform == 50_000
    assert time.process_time() - start < 30  # a few seconds; a loop over the words would take minutes


def test_ids_are_kept_apart_from_the_callers() -> None:
    ids = np.array([0, 1, 0, 1])
    model = NGram(2, 3).fit(ids)
    ids[:] = 2
    np.testing.assert_array_equal(model.distribution(), NGram(2, 3).fit([0, 1, 0, 1]).distribution())
    np.testing.assert_array_equal(
        model.distribution(), NGram(2, 3).fit(torch.tensor([0, 1, 0, 1], dtype=torch.int32)).distribution()
    )


@pytest.mark.parametrize("sizes", [(0, 3), (2, 0), (2.5, 3), (2, True), (2, 2**31 + 1)])
def test_bad_sizes(sizes: tuple[int, int]) -> None:
    with pytest.raises(ArgumentError, match="order|vocabulary_size"):
        NGram(*sizes)


@pytest.mark.parametrize(
    ("ids", "error", "match"),
    [
        ([0, 3], ArgumentError, r"\(=3\) is not in the vocabulary. Give ids from 0 to 2"),
        ([-1], ArgumentError, "not in the vocabulary"),
        ([0.5], ArgumentTypeError, "float64"),
        (["a"], ArgumentTypeError, "dtype"),
        ([[0, 1], [2]], ArgumentTypeError, "not one sequence"),
        ([[0, 1]], ShapeError, "2 dimension"),
        (3, ShapeError, "0 dimension"),
        ([True], ArgumentTypeError, "bool"),
    ],
)
def test_bad_ids(ids: Any, error: type[Exception], match: str) -> None:
    model = NGram(2, 3)
    for question in (model.fit, model.log_probability, model.perplexity, model.distribution):
        with pytest.raises(error, match=match):
            question(ids)


def test_no_perplexity_of_nothing() -> None:
    with pytest.raises(ArgumentError, match="empty"):
        NGram(2, 3).perplexity([])
    assert NGram(2, 3).log_probability([]).shape == (0,)
