"""State tracking: targets against counts and products that are computed in other ways."""

from __future__ import annotations

import numpy as np
import pytest

from unspool.errors import ArgumentError
from unspool.lab.data import counting, parity, permutations, word_problem


def test_parity_is_the_exclusive_or_of_all_bits_so_far() -> None:
    x, y = parity(30, 5, seed=1)
    np.testing.assert_array_equal(y, np.bitwise_xor.accumulate(x, axis=0))
    assert set(x.ravel()) == {0, 1}


@pytest.mark.parametrize("modulus", [2, 3, 7])
def test_counting_counts_ones(modulus: int) -> None:
    x, y = counting(40, 4, modulus, seed=2)
    for step in range(40):
        np.testing.assert_array_equal(y[step], [int((row[: step + 1] == 1).sum()) % modulus for row in x.T])
    assert set(y.ravel()) == set(range(modulus))


def matrix(permutation: np.ndarray) -> np.ndarray:
    """The matrix that sends the unit vector i to the unit vector permutation[i]."""
    columns: np.ndarray = np.eye(len(permutation), dtype=np.int64)[permutation].T
    return columns


@pytest.mark.parametrize(("n", "generators"), [(3, False), (5, False), (5, True)])
def test_products_of_permutations_are_products_of_their_matrices(n: int, generators: bool) -> None:
    x, y = word_problem(12, 6, n, generators, seed=3)
    elements = permutations(n)
    swap, cycle = [1, 0, *range(2, n)], [*range(1, n), 0]
    letters = np.array([swap, cycle]) if generators else elements
    for tokens, targets in zip(x.T, y.T, strict=True):
        product = np.eye(n, dtype=np.int64)
        for token, target in zip(tokens, targets, strict=True):
            product = matrix(letters[token]) @ product
            np.testing.assert_array_equal(product, matrix(elements[target]))


def test_two_generators_reach_the_whole_group() -> None:
    _, y = word_problem(60, 300, 4, generators=True)
    assert set(y[-2:].ravel()) == set(range(24))


def test_the_seed_decides() -> None:
    np.testing.assert_array_equal(word_problem(9, 2, seed=4)[0], word_problem(9, 2, seed=4)[0])
    assert (word_problem(9, 2, seed=4)[0] != word_problem(9, 2, seed=5)[0]).any()


def test_impossible_groups_are_refused() -> None:
    with pytest.raises(ArgumentError, match="modulus"):
        counting(3, 3, modulus=1)
    with pytest.raises(ArgumentError, match="from 2 to 7"):
        word_problem(3, 3, n=8)
