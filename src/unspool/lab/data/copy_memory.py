"""The copy task: symbols at the beginning, a long pause, a signal, and the same symbols again."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from unspool.lab.data.sizes import check_sizes

Tokens = NDArray[np.int64]


def copy_memory(T: int, count: int, length: int = 10, symbols: int = 8, seed: int = 0) -> tuple[Tokens, Tokens]:
    """Symbols to repeat after a pause of T steps (Hochreiter and Schmidhuber 1997; Arjovsky, Shah and Bengio 2016).

    Token 0 is the blank, 1 … `symbols` are the symbols, `symbols` + 1 is the signal to repeat. A network without memory
    can do no better than a mean cross-entropy of `length` · ln(`symbols`) / (T + 2 · `length`).

    Args:
        T: steps from the last symbol to the signal, at least 1.
        count: sequences.
        length: symbols of a sequence.
        symbols: different symbols.
        seed: of the random numbers.

    Returns:
        x and y of shape (T + 2 · length, count): x has the symbols, T − 1 blanks, the signal and blanks; y has blanks
        up to the signal and then the symbols.

    Example:
        >>> x, y = copy_memory(3, 1, length=2)
        >>> x[:, 0].tolist(), y[:, 0].tolist()
        ([7, 6, 0, 0, 9, 0, 0], [0, 0, 0, 0, 0, 7, 6])
    """
    check_sizes(T=T, count=count)
    chance = np.random.default_rng(seed)
    shown = chance.integers(1, symbols + 1, (length, count))
    x = np.zeros((T + 2 * length, count), np.int64)
    y = np.zeros_like(x)
    x[:length], y[-length:] = shown, shown
    x[length + T - 1] = symbols + 1
    return x, y
