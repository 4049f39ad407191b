"""Sequences in one array: what is taken is what was put in, and batches hold everything once."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unspool.data.sequences import Sequences, divide, shuffled_batches, sorted_batches
from unspool.errors import DataError

LENGTHS = st.lists(st.integers(0, 30), min_size=1, max_size=60)


@given(LENGTHS, st.integers(0, 3), st.integers(0, 2**32))
def test_what_is_taken_is_what_was_put_in(lengths: list[int], width: int, seed: int) -> None:
    chance = np.random.default_rng(seed)
    parts = [chance.normal(size=(length, width)) if width else chance.integers(0, 9, length) for length in lengths]
    found = Sequences.of(parts)
    rows = chance.permutation(len(parts))[: 1 + len(parts) // 2]
    padded = found.padded(rows)
    assert len(padded) == max(lengths[row] for row in rows)
    for place, row in enumerate(rows):
        np.testing.assert_array_equal(found[row], parts[row])
        np.testing.assert_array_equal(found.take(rows)[place], parts[row])
        np.testing.assert_array_equal(padded[: lengths[row], place], parts[row])
        assert not padded[lengths[row] :, place].any()


@given(LENGTHS, st.integers(1, 9), st.integers(0, 3))
def test_an_epoch_has_every_example_once(lengths: list[int], rows: int, epoch: int) -> None:
    sizes = np.array(lengths)
    batches = shuffled_batches(sizes, rows, seed=4, epoch=epoch)
    assert sorted(np.concatenate(batches)) == list(range(len(lengths)))
    assert sorted(map(len, batches))[1:] == [rows] * (len(batches) - 1)
    again = shuffled_batches(sizes, rows, seed=4, epoch=epoch)
    assert all(np.array_equal(one, other) for one, other in zip(batches, again, strict=True))
    straight = np.concatenate(sorted_batches(sizes, rows))
    assert list(sizes[straight]) == sorted(lengths)


def test_epochs_differ_and_batches_are_of_one_length() -> None:
    lengths = np.random.default_rng(0).integers(1, 100, 5000)
    one, other = (shuffled_batches(lengths, 32, seed=0, epoch=epoch) for epoch in (0, 1))
    assert not np.array_equal(one[0], other[0])
    padding = sum(len(rows) * lengths[rows].max() - lengths[rows].sum() for rows in one) / lengths.sum()
    assert padding < 0.05


def test_division_is_exact_seeded_and_disjoint() -> None:
    parts = divide(1128, 0.1, 0.1, seed=3)
    assert [len(part) for part in parts] == [902, 113, 113]
    assert sorted(np.concatenate(parts)) == list(range(1128))
    assert all(np.array_equal(one, other) for one, other in zip(parts, divide(1128, 0.1, 0.1, 3), strict=True))
    assert not np.array_equal(parts[2], divide(1128, 0.1, 0.1, seed=4)[2])


def test_too_few_examples_are_refused() -> None:
    with pytest.raises(DataError, match="2 example"):
        divide(2, 0.1, 0.1, 0)
    with pytest.raises(DataError, match="no sequences"):
        Sequences.of([])
