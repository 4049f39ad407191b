"""Windows of a token sequence: each batch continues, in every one of its parallel parts, where the last one ended."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from unspool.data.tokens import Ids
from unspool.errors import ArgumentError, DataError


@dataclass(frozen=True)
class Windows:
    """A sequence as `batch_size` parallel parts of equal length, read in windows of `steps`.

    Part i holds tokens i·n … (i+1)·n, the last of them only as a target; each token but the first is the target of the
    one before it exactly once. What does not fill the parts, fewer than `batch_size` tokens, is left out at the end.

    Example:
        inputs, targets = Windows(np.arange(9), batch_size=2, steps=3).window(0)
        inputs.T  # [[0, 1, 2], [4, 5, 6]]
    """

    tokens: Ids
    batch_size: int
    steps: int

    def __post_init__(self) -> None:
        for name in ("batch_size", "steps"):
            if getattr(self, name) < 1:
                raise ArgumentError.of(name, getattr(self, name), "is not a positive number", "Give 1 or more")
        if self.length < 1:
            raise DataError(
                f"{len(self.tokens):,} tokens are too few for `batch_size={self.batch_size}`. Give more text, or a "
                "smaller `batch_size`."
            )

    @property
    def length(self) -> int:
        """How many targets each part has."""
        return (len(self.tokens) - 1) // self.batch_size

    def __len__(self) -> int:
        """The number of windows; the last may be shorter."""
        return -(-self.length // self.steps)

    def window(self, number: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Inputs and targets, each (steps, batch)."""
        if not 0 <= number < len(self):
            raise IndexError(f"window {number} is not one of {len(self)}")  # ends `for` over what is built on this
        first = number * self.steps
        last = min(first + self.steps, self.length)
        starts = np.arange(self.batch_size) * self.length
        parts = [self.tokens[start + first : start + last + 1] for start in starts]
        both = np.stack(parts, axis=1).astype(np.int64)
        return both[:-1], both[1:]

    def __iter__(self) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
        return (self.window(number) for number in range(len(self)))
