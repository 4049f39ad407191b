"""A shuffle that is computed: one to one, different for each seed, without structure that statistics would show."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import kstest, spearmanr

from unspool.data.shuffle import EvenBatches, Shuffle


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 17, 1000, 4097])
def test_every_number_is_there_once(count: int) -> None:
    assert sorted(Shuffle(count, (3, 4))[np.arange(count)].tolist()) == list(range(count))


def test_seeds_give_different_orders() -> None:
    places = np.arange(1000)
    orders = [Shuffle(1000, seed)[places] for seed in ((0, 0), (0, 1), (1, 0))]
    assert (orders[0] == Shuffle(1000, (0, 0))[places]).all()
    for one, other in ((0, 1), (0, 2), (1, 2)):
        assert (orders[one] == orders[other]).sum() < 10  # 1 on average


def test_orders_look_random() -> None:
    """Ranks neither follow the places nor each other, and where a number goes is uniform over seeds."""
    order = Shuffle(5000, (7, 0))[np.arange(5000)]
    assert spearmanr(order, np.arange(5000)).pvalue > 0.001
    assert spearmanr(order[1:], order[:-1]).pvalue > 0.001
    where = [Shuffle(1000, (seed, 0))[np.array([123])].item() / 1000 for seed in range(500)]
    assert kstest(where, "uniform").pvalue > 0.001


def test_batches_are_those_of_one_order() -> None:
    batches = EvenBatches(10, 4, seed=1, epoch=2)
    assert [len(batch) for batch in batches] == [4, 4, 2]
    assert sorted(np.concatenate(list(batches)).tolist()) == list(range(10))
    assert batches[1].tolist() == [*batches][1].tolist()
    assert [len(batch) for batch in EvenBatches(10, 4, 1, 2, complete=True)] == [4, 4]
    assert batches[0].tolist() != EvenBatches(10, 4, seed=1, epoch=3)[0].tolist()
