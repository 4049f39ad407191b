"""Sequences of unequal length in one array, one after the other, and the batches that cost the least padding."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from unspool.errors import DataError

Rows = NDArray[np.int64]
#: Batches that are sorted by length together: enough that neighbours are of one length, few enough that epochs differ.
SORTED_TOGETHER = 50


@dataclass(frozen=True)
class Sequences:
    """`values` holds all steps of the first sequence, then of the second …: ids (steps,) or features (steps, width)."""

    values: NDArray[Any]
    lengths: Rows

    @classmethod
    def of(cls, parts: Iterable[NDArray[Any]]) -> Self:
        """Sequences that are apart."""
        listed = list(parts)
        if not listed:
            raise DataError("there are no sequences. Give at least one.")
        return cls(np.concatenate(listed), np.array([len(part) for part in listed], np.int64))

    @cached_property
    def starts(self) -> Rows:
        """Where each begins."""
        return np.concatenate([[0], np.cumsum(self.lengths)[:-1]]).astype(np.int64)

    def __len__(self) -> int:
        return len(self.lengths)

    def __getitem__(self, row: int) -> NDArray[Any]:
        return self.values[self.starts[row] : self.starts[row] + self.lengths[row]]

    def __iter__(self) -> Iterator[NDArray[Any]]:
        return (self[row] for row in range(len(self)))

    def take(self, rows: Rows) -> Self:
        """Some of them, in this order."""
        chosen = [self[int(row)] for row in rows]
        return type(self)(np.concatenate(chosen) if chosen else self.values[:0], self.lengths[rows])

    def padded(self, rows: Rows) -> NDArray[Any]:
        """(time, rows, …), as long as the longest, with zeros after a shorter one's end."""
        lengths = self.lengths[rows]
        steps = int(lengths.max(initial=0))
        found = np.zeros((steps, len(rows), *self.values.shape[1:]), self.values.dtype)
        for place, row in enumerate(rows):
            found[: lengths[place], place] = self[int(row)]
        return found


def shuffled_batches(lengths: Rows, rows: int, seed: int, epoch: int) -> list[Rows]:
    """An epoch's batches: every example once, each batch of examples about equally long, in an order by chance."""
    chance = np.random.default_rng([seed, epoch])
    order = chance.permutation(len(lengths))
    together = SORTED_TOGETHER * rows
    parts = [order[first : first + together] for first in range(0, len(order), together)]
    order = np.concatenate([part[np.argsort(lengths[part], kind="stable")] for part in parts]) if parts else order
    batches = [order[first : first + rows] for first in range(0, len(order), rows)]
    return [batches[place] for place in chance.permutation(len(batches))]


def sorted_batches(lengths: Rows, rows: int) -> list[Rows]:
    """All examples, the shortest first, for reading without learning."""
    order = np.argsort(lengths, kind="stable")
    return [order[first : first + rows] for first in range(0, len(order), rows)]


def divide(count: int, validation: float, test: float, seed: int) -> tuple[Rows, Rows, Rows]:
    """Which examples are for training, validation and test: a seeded draw of exact shares, at least one each."""
    order = np.random.default_rng([seed, count]).permutation(count)
    sizes = [max(1, round(share * count)) if share else 0 for share in (validation, test)]
    first, second = sizes[0], sizes[0] + sizes[1]
    if second >= count:
        raise DataError(f"{count} example(s) are too few to divide for training, validation and test. Give more.")
    return np.sort(order[second:]), np.sort(order[:first]), np.sort(order[first:second])
