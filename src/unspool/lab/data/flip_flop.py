"""The flip-flop: remember the latest pulse of each channel."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from unspool.errors import ArgumentError
from unspool.lab.data.sizes import check_sizes

Floats = NDArray[np.float32]


def flip_flop(T: int, count: int, bits: int = 3, probability: float = 0.1, seed: int = 0) -> tuple[Floats, Floats]:
    """Pulses of ±1 on several channels; the target at each step is the latest pulse of each.

    Args:
        T: steps of a sequence.
        count: sequences.
        bits: channels. The network has to keep one of 2^bits states.
        probability: of a pulse at each step of each channel. At the first step every channel has one.
        seed: of the random numbers.

    Returns:
        x of shape (T, count, bits): −1, 0 and 1; y of the same shape: −1 and 1.

    Example:
        >>> x, y = flip_flop(20, 4)
        >>> x.shape, bool((y[x != 0] == x[x != 0]).all())
        ((20, 4, 3), True)
    """
    check_sizes(T=T, count=count)
    if not 0 <= probability <= 1:
        raise ArgumentError.of("probability", probability, "is not from 0 to 1", "Give such as 0.1")
    chance = np.random.default_rng(seed)
    present = chance.random((T, count, bits)) < probability
    present[:1] = True
    x = np.where(present, chance.choice([-1.0, 1.0], (T, count, bits)), 0.0).astype(np.float32)
    latest = np.maximum.accumulate(np.where(present, np.arange(T)[:, None, None], 0), axis=0)
    y: Floats = np.take_along_axis(x, latest, axis=0)
    return x, y
