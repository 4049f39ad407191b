"""Gradients and accuracies with and without skips."""

from __future__ import annotations

from unspool.lab import Found

DEPTHS = list(range(1, 11))
FIBONACCI = [1, 1, 2, 3, 5, 8, 13, 21, 34, 55]


def found(accuracies: list[float], paths: list[int] = FIBONACCI) -> Found:
    """Numbers with these accuracies with skips, beside 0.70 to 0.72 without."""
    left = {"without skips": [[-0.4 * n for n in DEPTHS]] * 3, "with skips": [[-0.1 * n for n in DEPTHS]] * 3}
    both = {"without skips": [0.70, 0.71, 0.72], "with skips": accuracies}
    return {"depths": DEPTHS, "paths": paths, "left": left, "accuracies": both}


HOLDS = found([0.85, 0.86, 0.86])
FAILS = found([0.85, 0.86, 0.86], [1] * 10)
UNDECIDED = found([0.85, 0.60, 0.71])
