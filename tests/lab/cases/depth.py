"""Accuracies with an optimum, and without one."""

from __future__ import annotations

import numpy as np

from unspool.lab import Found

DEPTHS = [1, 2, 3, 4, 6, 8]


def found(noise: float, m: float) -> Found:
    """Numbers of the curve with b = 1 and this m, and noise that differs between seeds."""
    n = np.array(DEPTHS, np.float64)
    curve = 0.25 + 0.75 * (1 - np.exp(-n)) * m**n
    runs = [(curve + noise * np.random.default_rng(seed).standard_normal(6)).tolist() for seed in range(3)]
    return {"depths": DEPTHS, "accuracies": {"stacked": runs, "deep transition": runs}}


HOLDS = found(0.002, 0.93)
FAILS = found(0.002, 0.3)
UNDECIDED = found(0.15, 0.93)
