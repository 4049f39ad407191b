"""The copy task against its definition, step by step."""

from __future__ import annotations

import numpy as np
import pytest

from unspool.lab.data import copy_memory


@pytest.mark.parametrize(("T", "length", "symbols"), [(1, 1, 2), (5, 3, 4), (40, 10, 8)])
def test_each_sequence_is_what_the_task_says(T: int, length: int, symbols: int) -> None:
    x, y = copy_memory(T, 30, length=length, symbols=symbols, seed=2)
    for read, wanted in zip(x.T.tolist(), y.T.tolist(), strict=True):
        shown = read[:length]
        assert set(shown) <= set(range(1, symbols + 1))
        assert read[length:] == [0] * (T - 1) + [symbols + 1] + [0] * length
        assert wanted == [0] * (T + length) + shown


def test_symbols_are_equally_likely_at_every_place() -> None:
    x, _ = copy_memory(1, 30_000, length=2, symbols=4)
    counts = np.stack([np.bincount(row, minlength=6)[1:5] for row in x[:2]])
    assert counts / 30_000 == pytest.approx(np.full((2, 4), 0.25), abs=0.01)
    assert np.corrcoef(x[0], x[1])[0, 1] == pytest.approx(0, abs=0.02)


def test_a_seed_repeats_the_task() -> None:
    assert (copy_memory(9, 4, seed=1)[0] == copy_memory(9, 4, seed=1)[0]).all()
    assert (copy_memory(9, 4, seed=1)[0] != copy_memory(9, 4, seed=2)[0]).any()
