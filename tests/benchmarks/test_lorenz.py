"""A network that learned the Lorenz system has the exponents of the system."""

from __future__ import annotations

import numpy as np
import pytest
from benchmarks.results.lorenz import KNOWN, Learned, draw_states

from unspool.lab.data.lorenz import BETA, SIGMA


def test_some_states_are_off_the_attractor_and_all_follow_the_equations() -> None:
    on, _ = draw_states(200, 0.0, 0.02, 0)
    states, later = draw_states(200, 0.5, 1e-4, 0)
    assert states.shape == later.shape == on.shape == (200, 3)
    x, y, z = states.T
    slope = np.stack([10 * (y - x), x * (28 - z) - y, x * y - 8 / 3 * z], 1)
    assert np.allclose((later - states) / 1e-4, slope, rtol=0.01, atol=0.5)
    moved = np.abs(draw_states(200, 0.5, 0.02, 0)[0] - on).max(1) > 1e-6
    assert moved.sum() == 100


@pytest.mark.long
def test_exponents_of_the_trained_network_are_those_of_the_system() -> None:
    dt = 0.02
    states, later = draw_states(2000, 0.5, dt, 0)
    learned = Learned(states, inner=32, seed=0)
    learned.train(states, later, updates=500)
    found, (low, high) = learned.exponents(draw_states(800, 0.0, dt, 2)[0][::100], 5000, dt)
    assert np.allclose(found[[0, 2]], [KNOWN[0], KNOWN[2]], rtol=0.05, atol=0)
    assert abs(found[1]) < 0.05 * KNOWN[0]
    assert found.sum() == pytest.approx(-(SIGMA + 1 + BETA), rel=0.01)  # the rate at which volumes shrink, exactly
    assert low < found[0] < high
