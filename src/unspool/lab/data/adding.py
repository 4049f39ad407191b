"""The adding problem: the sum of two marked numbers of a long sequence."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from unspool.lab.data.sizes import check_sizes

Floats = NDArray[np.float32]


def adding(T: int, count: int, seed: int = 0) -> tuple[Floats, Floats]:
    """Random numbers with two marks, one in each half; the target is the sum of the marked numbers.

    Args:
        T: steps of a sequence, at least 2.
        count: sequences.
        seed: of the random numbers.

    Returns:
        x of shape (T, count, 2): a number in [0, 1) and 1 where it is marked; y of shape (count,).

    Example:
        >>> x, y = adding(50, 3)
        >>> x.shape, y.shape, bool(np.allclose((x[..., 0] * x[..., 1]).sum(0), y))
        ((50, 3, 2), (3,), True)
    """
    check_sizes(T=T, count=count)
    chance = np.random.default_rng(seed)
    x = np.zeros((T, count, 2), np.float32)
    x[..., 0] = chance.random((T, count), np.float32)
    sequence = np.arange(count)
    x[chance.integers(0, T // 2, count), sequence, 1] = 1
    x[chance.integers(T // 2, T, count), sequence, 1] = 1
    y: Floats = (x[..., 0] * x[..., 1]).sum(0)
    return x, y
