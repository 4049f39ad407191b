"""Sources: the arrays that a network's document names, from the tensors of a file, checked and hardly ever copied."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from unspool.runtime.entries import Entry, shown
from unspool.runtime.network import Array

#: The types of numbers that a network may compute with; one for all its tensors.
DTYPES = (np.dtype(np.float32), np.dtype(np.float64))
#: The largest constant: one that every type of numbers has.
LARGEST = float(np.finfo(np.float32).max)
#: The most sources in a sum: torch.nn has two biases.
MOST_TERMS = 8
#: Widths and numbers that a document may ask for even of a file with fewer: a small model is not a bomb.
SMALL_WIDTH, SMALL_COUNT = 1024, 1 << 20


class Sources:
    """The tensors of a file as the parts of a network.

    A document may come from anywhere. Playing it makes copies of what it names, so that a tensor counts each time that
    it is named: a document may ask for twice the numbers of the file (a tied embedding is also a head), and a million.

    Args:
        tensors: By name, as the file has them.
    """

    def __init__(self, tensors: Mapping[str, Array]) -> None:
        self._tensors = tensors
        sizes = [size for tensor in tensors.values() for size in tensor.shape]
        self.widest = max(SMALL_WIDTH, *sizes, 0)
        self._left = SMALL_COUNT + 2 * sum(tensor.size for tensor in tensors.values())
        floating = (tensor.dtype for tensor in tensors.values() if tensor.dtype in DTYPES)
        self.dtype: np.dtype[Any] = next(floating, DTYPES[0])

    def matrix(self, entry: Entry, columns: int | None = None, rows: int | None = None) -> Array:
        """A matrix, of these sizes where they are given."""
        found = self._find(entry)
        if found.ndim != 2 or 0 in found.shape:
            entry.refuse(f"is of shape {found.shape}, not a matrix")
        for size, wanted, name in zip(found.shape, (rows, columns), ("rows", "columns"), strict=True):
            if wanted is not None and size != wanted:
                entry.refuse(f"is of shape {found.shape}, and not of {wanted} {name}")
        return found

    def shaped(self, entry: Entry, shape: tuple[int, ...]) -> Array:
        """An array of this shape; a vector may be one number for all units."""
        if isinstance(entry.value, dict) and "constant" in entry.value:
            number = entry.open("constant")["constant"].number(-LARGEST, LARGEST)
            return self._constant(entry, number, shape)
        found = self._find(entry)
        if found.shape != shape:
            entry.refuse(f"is of shape {found.shape}, not {shape}")
        return found

    def _constant(self, entry: Entry, number: float, shape: tuple[int, ...]) -> Array:
        if len(shape) != 1:
            entry.refuse(f"is one number, and an array of shape {shape} is needed")
        self._take(entry, math.prod(shape))
        return np.full(shape, number, self.dtype)

    def _find(self, entry: Entry) -> Array:
        """A tensor, some of its rows, or a sum of such."""
        if isinstance(entry.value, dict) and "sum" in entry.value:
            return self._sum(entry)
        return self._counted(entry)

    def _sum(self, entry: Entry) -> Array:
        terms = [self._counted(term) for term in entry.open("sum")["sum"].each(1, MOST_TERMS)]
        if len({term.shape for term in terms}) > 1:
            entry.refuse(f"adds shapes {', '.join(str(term.shape) for term in terms)}")
        self._take(entry, terms[0].size)
        return np.asarray(sum(terms[1:], start=terms[0]))

    def _one(self, entry: Entry) -> Array:
        if isinstance(entry.value, dict):
            return self._rows(entry)
        name = entry.text()
        if name not in self._tensors:
            entry.refuse(f"names the tensor {shown(name)}, which model.safetensors does not have")
        found = self._tensors[name]
        self._check_dtype(entry, found)
        return found

    def _counted(self, entry: Entry) -> Array:
        """A tensor or some of its rows, taken off what the document may still ask for."""
        found = self._one(entry)
        self._take(entry, found.size)
        return found

    def _rows(self, entry: Entry) -> Array:
        parts = entry.open("tensor", "rows")
        found = self._one(Entry(parts["tensor"].text(), parts["tensor"].path))
        if not found.ndim:
            parts["tensor"].refuse("is one number, which has no rows")
        first, last = (end.whole(0) for end in parts["rows"].each(2, 2))
        if not first < last <= len(found):
            parts["rows"].refuse(f"is {first} to {last}, and the tensor has {len(found)} rows")
        return found[first:last]

    def _check_dtype(self, entry: Entry, found: Array) -> None:
        if found.dtype not in DTYPES:
            entry.refuse(f"is of type {found.dtype}, not float32 or float64")
        if found.dtype != self.dtype:
            entry.refuse(f"is of type {found.dtype}, and others are of type {self.dtype}")

    def _take(self, entry: Entry, count: int) -> None:
        """Account for numbers that a player keeps."""
        self._left -= count
        if self._left < 0:
            entry.refuse("asks for more numbers than the model has: the same tensors are named again and again")
