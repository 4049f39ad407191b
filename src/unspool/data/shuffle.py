"""A seeded shuffle of so many examples that their order is computed, and not kept."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from unspool.data.on_demand import OnDemand
from unspool.data.sequences import Indices

#: Rounds of a Feistel network: after four, no statistic of orders that the tests measure tells it from chance.
ROUNDS = 6


class Shuffle:
    """A permutation of 0 … count − 1 that is computed place by place, without memory.

    Each number is mixed by a Feistel network over the next even number of bits, which is one to one; what falls beyond
    the count is mixed again until it does not.

    Args:
        count: How many numbers there are.
        seed: Two numbers or more: each gives another order.

    Example:
        Shuffle(10, (0, 1))[np.arange(10)]  # 0 … 9 in another order
    """

    def __init__(self, count: int, seed: Sequence[int]) -> None:
        self._count = count
        self._half = max(1, -(-max(count - 1, 1).bit_length() // 2))
        self._keys = np.random.default_rng(list(seed)).integers(0, 1 << 63, ROUNDS, np.uint64)

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, places: Indices) -> Indices:
        """The numbers at these places."""
        found = self._mix(np.asarray(places).astype(np.uint64))
        while len(beyond := np.flatnonzero(found >= self._count)):
            found[beyond] = self._mix(found[beyond])
        return found.astype(np.int64)

    def _mix(self, numbers: NDArray[np.uint64]) -> NDArray[np.uint64]:
        half, mask = np.uint64(self._half), np.uint64((1 << self._half) - 1)
        left, right = numbers >> half, numbers & mask
        for key in self._keys:
            left, right = right, left ^ (_hash(right ^ key) & mask)
        return (left << half) | right


def _hash(numbers: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Each bit of a number changes half of the bits: two products, with xors of shifted numbers between them."""
    for factor in (0xBF58476D1CE4E5B9, 0x94D049BB133111EB):
        numbers = (numbers ^ (numbers >> np.uint64(31))) * np.uint64(factor)
    return numbers ^ (numbers >> np.uint64(29))


class EvenBatches(OnDemand[Indices]):
    """The batches of an epoch of many examples of one length: every example once, in random order, without a list.

    Args:
        count: How many examples there are.
        batch_size: Examples per batch; the last may have fewer.
        seed: With `epoch`, the seed of the order.
        epoch: The number of the epoch.
        complete: Leave out a last batch that has fewer.
    """

    def __init__(self, count: int, batch_size: int, seed: int, epoch: int, complete: bool = False) -> None:
        self._order, self._batch_size = Shuffle(count, (seed, epoch)), batch_size
        self._count = count // batch_size if complete else -(-count // batch_size)

    def __len__(self) -> int:
        return self._count

    def make(self, number: int) -> Indices:
        first = number * self._batch_size
        return self._order[np.arange(first, min(first + self._batch_size, len(self._order)))]
