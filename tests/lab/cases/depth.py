"""Accuracies with an optimum, and without one."""

from __future__ import annotations

import numpy as np

from unspool.lab import Found

DEPTHS = [1, 2, 3, 4, 6, 8]


def found(b: float, m: float, spread: float) -> Found:
    """Numbers of a curve; the accuracy at depth 1 differs by this much between seeds."""
    n = np.array(DEPTHS, np.float64)
    curve = 0.25 + 0.75 * (1 - np.exp(-b * n)) * m**n
    shallow = np.eye(6)[0]
    runs = [(curve + sign * spread * shallow).tolist() for sign in (-1, 0, 1)]
    return {"depths": DEPTHS, "accuracies": {"stacked": runs, "deep transition": runs}}


HOLDS = found(1.0, 0.93, 0.01)
FAILS = found(0.3, 0.995, 0.01)  # depth 8 is best, and the optimum is far beyond it
UNDECIDED = found(1.0, 0.93, 0.3)
