"""Origins: parts that do not leak, and batches whose entries say where they come from."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unspool.data.origins import Origins, inputs_at
from unspool.data.series import Series
from unspool.data.times import TimeAxis
from unspool.errors import ArgumentError, DataError, UnknownNameError


def counting(steps: int, ahead: int = 0, offset: int = 0) -> Series:
    """Values t, unknown 1000 + t and known 2000 + t: an entry tells its column and step."""
    step = np.arange(float(steps + ahead))[:, None] + offset
    axis = TimeAxis("number", "fixed", 1)
    return Series(f"s{offset}", axis, np.arange(steps + ahead), step[:steps], 2000 + step, 1000 + step[:steps])


sizes = st.integers(1, 5)


class TestParts:
    @given(sizes, sizes, st.integers(0, 4), st.integers(0, 4), st.lists(st.integers(0, 9), min_size=1, max_size=3))
    def test_every_origin_once_and_none_across(
        self, lookback: int, horizon: int, more_validation: int, more_test: int, extra: list[int]
    ) -> None:
        validation = horizon + more_validation - 1 if more_validation else 0
        test = horizon + more_test - 1 if more_test else 0
        least = lookback + horizon + validation + test
        series = [counting(least + more, offset=100 * number) for number, more in enumerate(extra)]
        origins = Origins(series, lookback, horizon, validation, test)
        for number, one in enumerate(series):
            steps = len(one)
            part_of = ["training"] * (steps - validation - test) + ["validation"] * validation + ["test"] * test
            expected: dict[str, list[list[int]]] = {"training": [], "validation": [], "test": []}
            for origin in range(lookback, steps - horizon + 1):
                foretold = {part_of[step] for step in range(origin, origin + horizon)}
                if len(foretold) == 1:
                    expected[foretold.pop()].append([number, origin])
            for part, pairs in expected.items():
                found = origins.pairs(part)[:]
                assert found[found[:, 0] == number].tolist() == pairs
            assert expected["training"]
            assert origins.ends()[number] == part_of.count("training")

    def test_training_never_touches_what_comes_later(self) -> None:
        origins = Origins([counting(40)], lookback=6, horizon=3, validation=5, test=7)
        seen = origins.batch(origins.pairs("training")[:])
        assert max(seen.past[..., 0].max(), seen.target.max()) == origins.ends()[0] - 1 == 27
        assert origins.batch(origins.pairs("validation")[:]).target.max() == 32
        assert origins.batch(origins.pairs("test")[:]).target.min() == 33


class TestBatches:
    def test_entries(self) -> None:
        origins = Origins([counting(12), counting(15, offset=100)], lookback=3, horizon=2)
        batch = origins.batch(np.array([[1, 5], [0, 3], [1, 13]]))
        firsts = np.array([105, 3, 113])
        past = firsts + np.arange(-3, 0)[:, None]
        np.testing.assert_array_equal(batch.past, np.stack([past, 1000 + past, 2000 + past], axis=-1))
        ahead = firsts + np.arange(2)[:, None]
        np.testing.assert_array_equal(batch.future[..., 0], 2000 + ahead)
        np.testing.assert_array_equal(batch.target[..., 0], ahead)

    def test_the_true_future(self) -> None:
        past, future = inputs_at(counting(10, ahead=2), 10, lookback=2, horizon=2)
        assert past.tolist() == [[8, 1008, 2008], [9, 1009, 2009]]
        assert future.tolist() == [[2010], [2011]]
        with pytest.raises(DataError, match="end 1 steps before"):
            inputs_at(counting(10, ahead=2), 10, lookback=2, horizon=3)
        with pytest.raises(DataError, match="needs 11 steps before it"):
            inputs_at(counting(10, ahead=2), 10, lookback=11, horizon=2)

    @pytest.mark.parametrize("pairs", [[[0, 9]], [[1, 5]], [[-1, 5]]])
    def test_pairs_without_a_target(self, pairs: list[list[int]]) -> None:
        origins = Origins([counting(10)], lookback=2, horizon=2)
        with pytest.raises(ArgumentError, match="has no target"):
            origins.batch(np.array(pairs))
        with pytest.raises(ArgumentError, match="no origin"):
            origins.batch(origins.pairs("test")[:])


def test_refused() -> None:
    with pytest.raises(ArgumentError, match="`lookback` .=0."):
        Origins([counting(10)], 0, 1)
    with pytest.raises(ArgumentError, match="`test` .=1. is less than the horizon .2."):
        Origins([counting(10)], 2, 2, 0, 1)
    with pytest.raises(ArgumentError, match="`validation` .=-1."):
        Origins([counting(10)], 2, 2, -1)
    with pytest.raises(DataError, match="'s0' is too short, as are 1 others: it has 10 steps.* need 11"):
        Origins([counting(10), counting(11, offset=1), counting(3, offset=2)], 4, 2, 2, 3)
    with pytest.raises(DataError, match="'s0' is too short: .*horizon 99"):
        Origins([counting(10)], 1, 99)
    with pytest.raises(UnknownNameError, match="'train'"):
        Origins([counting(10)], 1, 1).pairs("train")
