"""Sequences of different lengths in one array, and batches of them with little padding."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from unspool.errors import DataError

#: Which examples: their numbers, from 0.
Indices = NDArray[np.int64]
#: Batches that are sorted by length together: enough that neighbors have one length, few enough that epochs differ.
SORTED_TOGETHER = 50


@dataclass(frozen=True)
class Sequences:
    """`values` holds all steps of the first sequence, then of the second …: ids (steps,) or features (steps, width).

    Example:
        Sequences.of([np.array([1, 2]), np.array([3])]).padded(np.array([0, 1]))  # [[1, 3], [2, 0]]
    """

    values: NDArray[Any]
    lengths: Indices

    @classmethod
    def of(cls, parts: Iterable[NDArray[Any]]) -> Self:
        """From one array per sequence."""
        listed = list(parts)
        if not listed:
            raise DataError("there are no sequences. Give at least one.")
        return cls(np.concatenate(listed), np.array([len(part) for part in listed], np.int64))

    @cached_property
    def starts(self) -> Indices:
        """The place of the first step of each."""
        return np.concatenate([[0], np.cumsum(self.lengths)[:-1]]).astype(np.int64)

    def __len__(self) -> int:
        return len(self.lengths)

    def __getitem__(self, index: int) -> NDArray[Any]:
        return self.values[self.starts[index] : self.starts[index] + self.lengths[index]]

    def __iter__(self) -> Iterator[NDArray[Any]]:
        return (self[index] for index in range(len(self)))

    def take(self, indices: Indices) -> Self:
        """Some of them, in this order."""
        chosen = [self[int(index)] for index in indices]
        return type(self)(np.concatenate(chosen) if chosen else self.values[:0], self.lengths[indices])

    def padded(self, indices: Indices) -> NDArray[Any]:
        """A batch (time, batch, …) as long as its longest sequence, with zeros after the end of a shorter one."""
        lengths = self.lengths[indices]
        steps = int(lengths.max(initial=0))
        found = np.zeros((steps, len(indices), *self.values.shape[1:]), self.values.dtype)
        for place, index in enumerate(indices):
            found[: lengths[place], place] = self[int(index)]
        return found


def shuffled_batches(lengths: Indices, batch_size: int, seed: int, epoch: int) -> list[Indices]:
    """The batches of an epoch: every example once, examples of similar length together, in random order.

    Args:
        lengths: Steps of each example.
        batch_size: Examples per batch; the last may have fewer.
        seed: With `epoch`, the seed of the order.
        epoch: The number of the epoch.
    """
    generator = np.random.default_rng([seed, epoch])
    order = generator.permutation(len(lengths))
    together = SORTED_TOGETHER * batch_size
    parts = [order[first : first + together] for first in range(0, len(order), together)]
    order = np.concatenate([part[np.argsort(lengths[part], kind="stable")] for part in parts]) if parts else order
    batches = _cut(order, batch_size)
    return [batches[place] for place in generator.permutation(len(batches))]


def sorted_batches(lengths: Indices, batch_size: int) -> list[Indices]:
    """All examples, the shortest first, for evaluation."""
    return _cut(np.argsort(lengths, kind="stable"), batch_size)


def _cut(order: Indices, batch_size: int) -> list[Indices]:
    return [order[first : first + batch_size] for first in range(0, len(order), batch_size)]


def divide(count: int, validation: float, test: float, seed: int) -> tuple[Indices, Indices, Indices]:
    """A seeded random split of `count` examples into training, validation and test.

    Args:
        count: How many examples there are.
        validation: The fraction for validation; at least one example if it is above 0.
        test: The fraction for test, likewise.
        seed: The seed of the split.

    Returns:
        The numbers of the examples of each part, in ascending order.
    """
    order = np.random.default_rng([seed, count]).permutation(count)
    sizes = [max(1, round(fraction * count)) if fraction else 0 for fraction in (validation, test)]
    first, second = sizes[0], sizes[0] + sizes[1]
    if second >= count:
        raise DataError(f"{count} example(s) are too few to divide for training, validation and test. Give more.")
    return np.sort(order[second:]), np.sort(order[:first]), np.sort(order[first:second])
