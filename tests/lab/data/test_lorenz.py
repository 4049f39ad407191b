"""Lorenz trajectories against SciPy's solver, the equations, and what is known of the attractor."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.integrate import solve_ivp

from unspool.lab.data import lorenz


def slope(_: float, s: NDArray[np.float64]) -> list[float]:
    x, y, z = s
    return [10 * (y - x), x * (28 - z) - y, x * y - 8 / 3 * z]


@pytest.mark.parametrize("dt", [0.003, 0.02, 0.1])
def test_a_step_solves_the_equations(dt: float) -> None:
    x, y = lorenz(20, 3, dt=dt, seed=3)
    for old, new in zip(x.reshape(-1, 3), y.reshape(-1, 3), strict=True):
        solved = solve_ivp(slope, (0, dt), old.astype(np.float64), rtol=1e-10, atol=1e-10).y[:, -1]
        assert new == pytest.approx(solved, abs=2e-4)


def test_targets_are_the_next_states() -> None:
    x, y = lorenz(30, 2)
    assert (x[1:] == y[:-1]).all()


def test_trajectories_are_on_the_attractor() -> None:
    x, _ = lorenz(1000, 40, seed=1)
    assert x[..., 2].min() > 0
    assert x[..., 2].max() < 50
    assert x[..., 2].mean() == pytest.approx(23.55, abs=0.3)  # the known time average of z
    assert np.abs(x[..., 0].mean()) < 2  # both wings are visited
    assert (x[..., 0].min(0) < -10).all()
    assert (x[..., 0].max(0) > 10).all()


def test_starts_differ_and_a_seed_repeats_them() -> None:
    assert (lorenz(2, 2, seed=1)[0] == lorenz(2, 2, seed=1)[0]).all()
    first = lorenz(1, 50, seed=1)[0][0]
    assert len(np.unique(first.round(3), axis=0)) == 50
