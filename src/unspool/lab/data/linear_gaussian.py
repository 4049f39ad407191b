"""Linear-Gaussian processes: noisy readings of a hidden state, for which the best estimator is known."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unspool.lab.data.sizes import check_sizes
from unspool.lab.theory.kalman import Process

Floats = NDArray[np.float32]


def linear_gaussian(
    T: int,
    count: int,
    transition: ArrayLike = 0.95,
    reading: ArrayLike = 1.0,
    drive: ArrayLike = 0.1,
    noise: ArrayLike = 1.0,
    seed: int = 0,
) -> tuple[Floats, Floats]:
    """States z_t = A z_{t−1} + w_t, and readings x_t = C z_t + v_t; w and v are Gaussian. The target is the state.

    `unspool.lab.Process` has the same arguments, and the errors of the best estimators.

    Args:
        T: steps of a sequence.
        count: sequences.
        transition: A, a number or a matrix, with a spectral radius below 1.
        reading: C.
        drive: the covariance of w.
        noise: the covariance of v.
        seed: of the random numbers.

    Returns:
        x of shape (T, count, readings) and z of shape (T, count, states), from the stationary distribution.

    Example:
        >>> x, z = linear_gaussian(50, 3)
        >>> x.shape, z.shape
        ((50, 3, 1), (50, 3, 1))
    """
    check_sizes(T=T, count=count)
    states, readings = Process(transition, reading, drive, noise).sample(T, count, seed)
    return readings.astype(np.float32), states.astype(np.float32)
