"""State tracking: the state of a finite group after each symbol. Parity, counting, and permutations of five things."""

from __future__ import annotations

import itertools

import numpy as np
from numpy.typing import NDArray

from unspool.errors import ArgumentError
from unspool.lab.data.sizes import check_sizes

Tokens = NDArray[np.int64]


def parity(T: int, count: int, seed: int = 0) -> tuple[Tokens, Tokens]:
    """Random bits; the target at each step is whether the number of ones so far is odd.

    Args:
        T: steps of a sequence.
        count: sequences.
        seed: of the random numbers.

    Returns:
        x and y of shape (T, count), both of 0 and 1.

    Example:
        >>> x, y = parity(20, 3)
        >>> bool((y[-1] == x.sum(0) % 2).all())
        True
    """
    check_sizes(T=T, count=count)
    return counting(T, count, 2, seed)


def counting(T: int, count: int, modulus: int = 5, seed: int = 0) -> tuple[Tokens, Tokens]:
    """Random bits; the target at each step is the number of ones so far, modulo a number.

    Args:
        T: steps of a sequence.
        count: sequences.
        modulus: the number of states, at least 2.
        seed: of the random numbers.

    Returns:
        x of shape (T, count), of 0 and 1; y of shape (T, count), of 0 … modulus − 1.

    Example:
        >>> x, y = counting(20, 3, modulus=4)
        >>> bool((y[-1] == x.sum(0) % 4).all())
        True
    """
    check_sizes(T=T, count=count)
    if modulus < 2:
        raise ArgumentError.of("modulus", modulus, "leaves nothing to count", "Give 2 or more")
    x = np.random.default_rng(seed).integers(0, 2, (T, count))
    return x, np.cumsum(x, axis=0) % modulus


def permutations(n: int = 5) -> Tokens:
    """The elements of the symmetric group S_n in the order of their tokens; element 0 changes nothing.

    Args:
        n: the number of things that are permuted.

    Returns:
        (n!, n): row g has at place i where g sends i.

    Example:
        >>> permutations(3)[0], len(permutations(5))
        (array([0, 1, 2]), 120)
    """
    return np.array(list(itertools.permutations(range(n))), np.int64)


def word_problem(T: int, count: int, n: int = 5, generators: bool = False, seed: int = 0) -> tuple[Tokens, Tokens]:
    """Random permutations; the target at each step is the product of all so far, the latest one applied last.

    From n = 5 on the group is not solvable, which no network of constant depth with linear recurrence is known to
    track at all lengths.

    Args:
        T: steps of a sequence.
        count: sequences.
        n: the number of things that are permuted, from 2 to 7.
        generators: draw only from a transposition and a cycle of all things, which generate the group; token 0 is the
            transposition, 1 the cycle. By default every element of the group is a token.
        seed: of the random numbers.

    Returns:
        x of shape (T, count): tokens; y of shape (T, count): the products, as rows of `permutations(n)`.

    Example:
        >>> x, y = word_problem(10, 3)
        >>> bool((x[0] == y[0]).all()), int(y.max()) < 120
        (True, True)
    """
    check_sizes(T=T, count=count)
    if not 2 <= n <= 7:
        raise ArgumentError.of("n", n, "is not a number from 2 to 7", "Give 5 for the smallest group that is hard")
    elements = permutations(n)
    weights = n ** np.arange(n)
    number_of = np.zeros(n**n, np.int64)  # from the digits of an element to its row
    number_of[elements @ weights] = np.arange(len(elements))
    swap, cycle = np.r_[1, 0, np.arange(2, n)], np.roll(np.arange(n), -1)
    letters = np.stack([swap, cycle]) if generators else elements
    x = np.random.default_rng(seed).integers(0, len(letters), (T, count))
    y = np.empty_like(x)
    product = np.broadcast_to(np.arange(n), (count, n))
    for step in range(T):
        product = np.take_along_axis(letters[x[step]], product, axis=1)
        y[step] = number_of[product @ weights]
    return x, y
