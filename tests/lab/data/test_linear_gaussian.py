"""Linear-Gaussian processes: covariances of a large sample against those that the equations determine."""

from __future__ import annotations

import numpy as np

from unspool.lab.data import linear_gaussian


def test_a_scalar_process_has_its_stationary_covariances() -> None:
    x, z = linear_gaussian(40, 40_000, transition=0.8, reading=2.0, drive=0.36, noise=0.5, seed=1)
    assert x.dtype == z.dtype == np.float32
    for step in (0, 39):  # the variance is 0.36 / (1 − 0.8²) = 1 from the first step on
        assert abs(z[step].var() - 1) < 0.03
    assert abs((z[30] * z[33]).mean() - 0.8**3) < 0.03
    assert abs((x - 2 * z).var() - 0.5) < 0.01
    assert abs(((x - 2 * z)[1:] * (x - 2 * z)[:-1]).mean()) < 0.01


def test_matrices_are_applied_to_the_state() -> None:
    turn = [[0.6, 0.5], [-0.5, 0.6]]
    x, z = linear_gaussian(60, 5000, turn, [[1.0, -1.0]], np.diag([1e-12, 1e-12]), 1e-12, seed=2)
    np.testing.assert_allclose(z[1:], z[:-1] @ np.array(turn).T, atol=1e-5)
    np.testing.assert_allclose(x[..., 0], z[..., 0] - z[..., 1], atol=1e-5)
