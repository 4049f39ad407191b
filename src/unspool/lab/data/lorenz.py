"""The Lorenz system: chaotic trajectories to predict, by the method of Runge and Kutta."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from unspool.lab.data.sizes import check_sizes

Floats = NDArray[np.float32]
Array = NDArray[np.float64]

SIGMA, RHO, BETA = 10.0, 28.0, 8 / 3
#: The interval between steps is integrated in parts no longer than this, whose error is below that of float32.
FINEST = 0.005
#: Time that is run through first, so that trajectories begin on the attractor.
SETTLING = 20.0


def lorenz(T: int, count: int, dt: float = 0.02, seed: int = 0) -> tuple[Floats, Floats]:
    """Trajectories of dx/dt = 10 (y − x), dy/dt = x (28 − z) − y, dz/dt = x y − 8/3 z on the attractor.

    Args:
        T: steps of a sequence.
        count: trajectories, each from its own start.
        dt: time between steps.
        seed: of the starts.

    Returns:
        x of shape (T, count, 3), and y of the same shape: the state one step later.

    Example:
        >>> x, y = lorenz(50, 2)
        >>> x.shape, bool((x[1:] == y[:-1]).all())
        ((50, 2, 3), True)
    """
    check_sizes(T=T, count=count)
    chance = np.random.default_rng(seed)
    state = np.array([0.0, 0.0, 25.0]) + chance.standard_normal((count, 3))
    state = advance(state, SETTLING)
    path = np.empty((T + 1, count, 3))
    for t in range(T + 1):
        path[t] = state
        state = advance(state, dt)
    found = path.astype(np.float32)
    return found[:-1], found[1:]


def advance(state: Array, time: float) -> Array:
    """States (count, 3) after some time, by the classical method of fourth order."""
    parts = max(1, int(np.ceil(time / FINEST - 1e-9)))
    h = time / parts
    for _ in range(parts):
        k1 = slope(state)
        k2 = slope(state + h / 2 * k1)
        k3 = slope(state + h / 2 * k2)
        k4 = slope(state + h * k3)
        state = state + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
    return state


def slope(state: Array) -> Array:
    """The time derivative of states (…, 3)."""
    x, y, z = np.moveaxis(state, -1, 0)
    return np.stack([SIGMA * (y - x), x * (RHO - z) - y, x * y - BETA * z], -1)
