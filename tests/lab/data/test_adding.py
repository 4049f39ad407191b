"""The adding problem: the target is the sum of two marked numbers, one in each half."""

from __future__ import annotations

import numpy as np
import pytest

from unspool.lab.data import adding


@pytest.mark.parametrize("T", [2, 7, 50])
def test_two_numbers_are_marked_one_in_each_half_and_summed(T: int) -> None:
    x, y = adding(T, 200, seed=1)
    for row in range(200):
        first, second = np.flatnonzero(x[:, row, 1])
        assert first < T // 2 <= second
        assert y[row] == pytest.approx(x[first, row, 0] + x[second, row, 0])


def test_always_answering_one_has_the_error_of_a_sixth() -> None:
    _, y = adding(10, 100_000)
    assert abs(float(np.square(y - 1).mean()) - 1 / 6) < 0.003
