"""Labels of a teacher: they follow from the last two inputs and from nothing else."""

from __future__ import annotations

import numpy as np

from unspool.lab.data import teacher


def test_a_label_follows_from_the_last_two_inputs_alone() -> None:
    x, y = teacher(9, 40, seed=3)
    # Two steps of the generator's own sequences, started elsewhere in time, keep their labels from the second on.
    chance = np.random.default_rng([0, 1])
    U, V = chance.standard_normal((24, 8)) / np.sqrt(8), chance.standard_normal((4, 24))
    for t in range(1, 9):
        for sequence in range(40):
            read = np.concatenate([x[t, sequence], x[t - 1, sequence]]).astype(np.float64)
            scores = [sum(v * np.tanh(2 * float(u @ read)) for v, u in zip(row, U, strict=True)) for row in V]
            assert int(np.argmax(scores)) == y[t, sequence]


def test_neither_input_alone_determines_the_label() -> None:
    x, y = teacher(2, 20_000, seed=1)
    for place in (0, 1):  # within a cell of the signs of one input, labels still differ
        signs = (np.sign(x[place]) > 0) @ np.array([1, 2, 4, 8])
        agreement = [np.bincount(y[1][signs == cell]).max() / (signs == cell).sum() for cell in range(16)]
        assert 0.3 < np.mean(agreement) < 0.75


def test_seeds_repeat_inputs_and_rules() -> None:
    x, y = teacher(6, 50, seed=3)
    assert (teacher(6, 50, seed=3)[1] == y).all()
    assert (teacher(6, 50, rule=1, seed=3)[0] == x).all()
    assert (teacher(6, 50, rule=1, seed=3)[1] != y).any()
    assert (teacher(6, 50, seed=4)[0] != x).any()
