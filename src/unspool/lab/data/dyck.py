"""Dyck languages: balanced brackets of several kinds, up to a depth."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from unspool.errors import ArgumentError
from unspool.lab.data.sizes import check_sizes

Integers = NDArray[np.int64]


def dyck(T: int, count: int, depth: int = 8, kinds: int = 2, seed: int = 0) -> tuple[Integers, Integers, Integers]:
    """Balanced brackets; the task is to say which bracket closes the innermost open one.

    Each step opens or closes with probability ½, unless only one of them leaves the sequence balanced at its end and
    within the depth.

    Args:
        T: steps of a sequence, an even number.
        count: sequences.
        depth: the largest number of open brackets.
        kinds: of brackets; 2 makes Dyck-2, such as `([])`.
        seed: of the random numbers.

    Returns:
        Tokens (T, count): `kind` opens a bracket and `kinds + kind` closes it. Targets (T, count): the token that
        closes the innermost open bracket after each step, −1 if none is open. Depths (T, count): open brackets after
        each step.

    Example:
        >>> tokens, targets, depths = dyck(20, 3)
        >>> tokens.shape, depths[-1].tolist()
        ((20, 3), [0, 0, 0])
    """
    check_sizes(T=T, count=count)
    if T % 2:
        raise ArgumentError.of("T", T, "is odd, and balanced brackets have an even number", "Give an even number")
    chance = np.random.default_rng(seed)
    sequence = np.arange(count)
    stack = np.full((depth + 1, count), -1)  # kinds of the open brackets; row 0 stands for none
    level = np.zeros(count, np.int64)
    tokens, targets, depths = (np.empty((T, count), np.int64) for _ in range(3))
    for t in range(T):
        opens = chance.integers(0, 2, count).astype(bool)
        opens = (opens | (level == 0)) & (level < np.minimum(depth, T - t))
        kind = np.where(opens, chance.integers(0, kinds, count), stack[level, sequence])
        tokens[t] = np.where(opens, kind, kinds + kind)
        level += np.where(opens, 1, -1)
        stack[level[opens], sequence[opens]] = kind[opens]
        innermost = stack[level, sequence]
        targets[t] = np.where(innermost < 0, -1, kinds + innermost)
        depths[t] = level
    return tokens, targets, depths
