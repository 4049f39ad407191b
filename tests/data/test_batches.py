"""Windows: rows go on where they stopped, no target is lost or met twice, and ranks share the rows."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unspool.data.batches import Windows
from unspool.errors import ArgumentError, DataError
from unspool.tasks.lm import TextWindows

sizes = st.tuples(st.integers(2, 300), st.integers(1, 12), st.integers(1, 400)).filter(lambda size: size[0] > size[1])


@given(sizes)
def test_every_token_is_a_target_once_and_rows_go_on(size: tuple[int, int, int]) -> None:
    count, rows, steps = size
    windows = list(Windows(np.arange(count), rows, steps))
    length = (count - 1) // rows
    for (_, before), (inputs, _) in pairwise(windows):
        assert (inputs[0] == before[-1]).all()  # row i goes on where row i stopped
    inputs, targets = (np.concatenate(parts) for parts in zip(*windows, strict=True))
    for row in range(rows):
        assert inputs[:, row].tolist() == list(range(row * length, (row + 1) * length))
    assert (targets == inputs + 1).all()
    assert sorted(targets.ravel().tolist()) == list(range(1, 1 + length * rows))
    assert count - 1 - length * rows < rows
    assert [len(x) for x, _ in windows] == [min(steps, length - at) for at in range(0, length, steps)]


@given(sizes, st.data())
def test_any_window_by_its_number(size: tuple[int, int, int], data: st.DataObject) -> None:
    windows = Windows(np.random.default_rng(0).integers(0, 9, size[0]), *size[1:])
    number = data.draw(st.integers(0, len(windows) - 1))
    for found, expected in zip(windows.window(number), list(windows)[number], strict=True):
        assert (found == expected).all()
    for beyond in (-1, len(windows)):
        with pytest.raises(IndexError, match="is not one of"):
            windows.window(beyond)


def test_a_window_longer_than_the_text_is_all_of_it() -> None:
    ((inputs, targets),) = Windows(np.arange(7, dtype=np.uint8), 2, 1000)
    assert inputs.tolist() == [[0, 3], [1, 4], [2, 5]]
    assert targets.tolist() == [[1, 4], [2, 5], [3, 6]]
    assert inputs.dtype == np.int64


@given(sizes, st.integers(1, 5))
def test_ranks_share_the_rows(size: tuple[int, int, int], ranks: int) -> None:
    count, rows, steps = size
    tokens = np.random.default_rng(0).integers(0, 99, count).astype(np.uint8)
    windows = [TextWindows(tokens, rows, steps, rank, ranks) for rank in range(ranks)]
    for number, parts in enumerate(Windows(tokens, rows, steps)):
        for which, whole in enumerate(parts):
            shares = [one[number][which] for one in windows]
            np.testing.assert_array_equal(np.concatenate(shares, axis=1), whole)
            widths = [share.shape[1] for share in shares]
            assert max(widths) - min(widths) <= 1
    assert {len(one) for one in windows} == {len(Windows(tokens, rows, steps))}


def test_without_a_window_the_text_is_one() -> None:
    windows = TextWindows(np.arange(11), 2, None)
    assert len(windows) == 1
    assert windows[0][1][:, 1].tolist() == [6, 7, 8, 9, 10]


def test_what_is_refused() -> None:
    with pytest.raises(DataError, match="3 tokens are too few for `batch_size=8`"):
        Windows(np.arange(3), 8, 5)
    with pytest.raises(DataError, match="0 tokens are too few"):
        Windows(np.arange(0), 1, 5)
    for rows, steps, name in ((0, 1, "batch_size"), (1, 0, "steps"), (1, -1, "steps")):
        with pytest.raises(ArgumentError, match=f"`{name}`.*positive"):
            Windows(np.arange(9), rows, steps)
