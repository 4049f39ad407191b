"""Signals of two time scales: a slow and a fast process, of which only the noisy sum is seen."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from unspool.errors import ArgumentError
from unspool.lab.data.sizes import check_sizes

Floats = NDArray[np.float32]


def two_scales(
    T: int, count: int, fast: float = 2.0, slow: float = 30.0, noise: float = 0.1, seed: int = 0
) -> tuple[Floats, Floats]:
    """The sum of two stationary Gaussian processes of variance 1, and the two processes that it is made of.

    Each process is z_t = a z_{t−1} + √(1 − a²) w_t with a = e^{−1/τ}, so that its autocorrelation is e^{−k/τ} at lag k.

    Args:
        T: steps of a sequence.
        count: sequences.
        fast: the time constant τ of the first process, in steps.
        slow: that of the second. Equal ones give a signal of one scale.
        noise: standard deviation of the noise on the sum.
        seed: of the random numbers.

    Returns:
        x of shape (T, count, 1): the noisy sum; y of shape (T, count, 2): the fast and the slow process.

    Example:
        >>> x, y = two_scales(100, 3, noise=0.0)
        >>> x.shape, y.shape, bool(np.allclose(x[..., 0], y.sum(-1), atol=1e-6))
        ((100, 3, 1), (100, 3, 2), True)
    """
    check_sizes(T=T, count=count)
    for name, value in (("fast", fast), ("slow", slow)):
        if not 0 < value < math.inf:
            raise ArgumentError.of(name, value, "is not a positive number of steps", "Give such as 2 or 30")
    chance = np.random.default_rng(seed)
    kept = np.exp(-1 / np.array([fast, slow]))
    drive = np.sqrt(1 - kept**2)
    y = np.empty((T, count, 2))
    state = chance.standard_normal((count, 2))  # stationary from the first step
    for t in range(T):
        y[t] = state
        state = kept * state + drive * chance.standard_normal((count, 2))
    x = y.sum(-1, keepdims=True) + noise * chance.standard_normal((T, count, 1))
    return x.astype(np.float32), y.astype(np.float32)
