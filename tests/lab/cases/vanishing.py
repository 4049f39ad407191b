"""Numbers of the scalar network that decide the claim; it is exact, so that none leave it open."""

from __future__ import annotations

HOLDS = None
WEIGHTS = (0.5, 0.9, 1.0, 1.5)
LINEAR = [[weight**lag for lag in range(31)] for weight in WEIGHTS]
FAILS = {
    "weights": WEIGHTS,
    "linear": [[1.001 * value for value in curve] for curve in LINEAR],
    "tanh": LINEAR,
}
UNDECIDED = None
