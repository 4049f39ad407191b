"""Networks whose matrices are integers of 8 bits with a scale per row: embeddings, layers and linear maps alike."""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar, cast

import numpy as np

from unspool.engine.rounding import quantize
from unspool.runtime.network import Array, Embedding, Linear, Pooling, Recurrence, SentenceLabel

Part = TypeVar("Part")


class RoundedMatrix:
    """A matrix that was rounded; it stands where an array would, and gives its numbers when they are asked for.

    Args:
        matrix: The matrix, which is not kept.

    Example:
        >>> np.asarray(RoundedMatrix(np.array([[1.0, 0.001]]))).tolist()
        [[1.0, 0.0]]
    """

    dtype, ndim = np.dtype(np.float32), 2

    def __init__(self, matrix: Array) -> None:
        self._numbers, self._scales = quantize(matrix)
        self.shape = self._numbers.shape

    def __len__(self) -> int:
        return len(self._numbers)

    def __getitem__(self, rows: Any) -> Array:
        return np.asarray(self._numbers[rows] * self._scales[rows][..., None])

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        return np.asarray(self[:], dtype)


def as_array(matrix: Array) -> Array:
    """The numbers of a matrix, rounded or not."""
    return np.asarray(matrix)


def as_rounded(matrix: Array) -> Array:
    """The matrix, rounded; one that is rounded stays as it is."""
    given: Any = matrix
    return matrix if isinstance(given, RoundedMatrix) else cast(Any, RoundedMatrix(matrix))


def round_network(network: Part) -> Part:
    """A network with rounded matrices, which does not hold on to those of the network that is given.

    Poolings and labels of sentences, which are small, keep their rounded numbers in float32. Vectors, and the scores of
    a chain of tags, are not rounded.

    Example:
        player = make_player(round_network(network))
    """
    return cast(Part, _Rounding().part(network))


class _Rounding:
    def __init__(self) -> None:
        self._done: dict[int, tuple[Array, Array]] = {}  # a tied matrix is rounded once; those given stay alive

    def part(self, value: Any) -> Any:
        match value:
            case Recurrence():
                parameters = {name: self.array(one) for name, one in value.parameters.items()}
                initial = None if value.initial is None else tuple(self.array(one) for one in value.initial)
                return replace(value, parameters=parameters, initial=initial)
            case Linear():
                bias = None if value.bias is None else self.array(value.bias)
                return Linear(self.array(value.weight), bias)
            case Embedding():
                return Embedding(self.array(value.weight), None if value.ngrams is None else self.array(value.ngrams))
            case Pooling():
                return replace(value, inner=self.small(value.inner), outer=self.small(value.outer))
            case SentenceLabel():
                return SentenceLabel(self.part(value.pooling), cast(Linear, self.small(value.head)))
            case tuple():
                return tuple(self.part(one) for one in value)
        if is_dataclass(value) and not isinstance(value, type):
            return replace(value, **{one.name: self.part(getattr(value, one.name)) for one in fields(value)})
        return value

    def small(self, linear: Linear | None) -> Linear | None:
        """A linear map whose rounded numbers are in float32."""
        if linear is None:
            return None
        rounded: Linear = self.part(linear)
        return replace(rounded, weight=as_array(rounded.weight))

    def array(self, given: Array) -> Array:
        if given.ndim != 2:
            return np.asarray(given, np.float32)
        if id(given) not in self._done:
            self._done[id(given)] = given, as_rounded(given)
        return self._done[id(given)][1]
