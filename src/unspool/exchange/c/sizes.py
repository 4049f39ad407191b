"""How large a model is as C text and as a file of weights, known before it is written."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any, NamedTuple

import numpy as np

from unspool.runtime.network import Array, Network, Stack

#: Bytes of one number in the C file, with its comma: a float in nine digits, and an integer of 8 bits.
FLOAT_TEXT, INT8_TEXT = 14, 5


class Sizes(NamedTuple):
    """Bytes of a model's weights, roughly: as text in the C file, and as they are in memory or in their own file."""

    text: int
    binary: int


def weigh(network: Network | Stack, int8: bool = False) -> Sizes:
    """Measure a network's weights without writing them.

    Args:
        network: The model, or layers alone.
        int8: Whether matrices are in int8, with a scale per row.

    Returns:
        The sizes, correct to some percent.

    Example:
        weigh(kept.network, int8=True).text
    """
    arrays = {id(one): one for one in _arrays(network)}.values()
    matrices = [one for one in arrays if one.ndim == 2]
    floats = sum(one.size for one in arrays)
    if not int8:
        return Sizes(FLOAT_TEXT * floats, 4 * floats)
    whole, scales = sum(one.size for one in matrices), sum(len(one) for one in matrices)
    rest = floats - whole + scales
    return Sizes(INT8_TEXT * whole + FLOAT_TEXT * rest, whole + 4 * rest)


def _arrays(value: Any) -> Iterator[Array]:
    """All arrays within a network."""
    if isinstance(value, np.ndarray):
        yield value
    elif isinstance(value, dict | list | tuple):
        for one in value.values() if isinstance(value, dict) else value:
            yield from _arrays(one)
    elif is_dataclass(value):
        for one in fields(value):
            yield from _arrays(getattr(value, one.name))
