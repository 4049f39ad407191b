"""Labels by a teacher: a fixed random network decides the class of each step from the last two inputs."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from unspool.lab.data.sizes import check_sizes

Floats = NDArray[np.float32]
Labels = NDArray[np.int64]


def teacher(
    T: int, count: int, features: int = 4, classes: int = 4, hidden: int = 24, rule: int = 0, seed: int = 0
) -> tuple[Floats, Labels]:
    """Random numbers, and at each step the class that a random network gives to x_t and x_{t−1}.

    The class is the largest entry of V tanh(2 U [x_t; x_{t−1}]), where x_0 is 0. U and V are the same for all seeds. A
    network must remember one step and learn a smooth nonlinear rule, so that its accuracy grows little by little.

    Args:
        T: steps of a sequence.
        count: sequences.
        features: numbers per step.
        classes: labels; not all of them are equally frequent.
        hidden: units of the teacher.
        rule: the seed of the teacher.
        seed: of the inputs.

    Returns:
        x of shape (T, count, features), and y of shape (T, count).

    Example:
        >>> x, y = teacher(12, 3)
        >>> x.shape, y.shape, int(y.max()) < 4
        ((12, 3, 4), (12, 3), True)
    """
    check_sizes(T=T, count=count)
    chance = np.random.default_rng([rule, 1])
    U = chance.standard_normal((hidden, 2 * features)) / np.sqrt(2 * features)
    V = chance.standard_normal((classes, hidden))
    x = np.random.default_rng(seed).standard_normal((T, count, features)).astype(np.float32)
    before = np.concatenate([np.zeros_like(x[:1]), x[:-1]])
    read = np.concatenate([x, before], -1).astype(np.float64)
    y: Labels = (np.tanh(2 * read @ U.T) @ V.T).argmax(-1)
    return x, y
