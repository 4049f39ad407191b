"""Accuracies with and without clipping that decide the claim, or leave it open."""

from __future__ import annotations

from unspool.lab import Found


def found(clipped: list[float], free: list[float], vanishing: list[float]) -> Found:
    """Accuracies at gain 1.5 with and without clipping, and at gain 0.7, one per seed."""
    return {
        "accuracy": {
            "1.5": {"clipped": clipped, "not clipped": free},
            "0.7": {"clipped": vanishing, "not clipped": vanishing},
        },
        "norms": {"1.5": [[1e4, 10.0]] * 3, "0.7": [[0.1, 1e-6]] * 3},
        "updates": 300,
    }


HOLDS = found([1.0, 0.99, 1.0], [0.5, 0.51, 0.5], [0.5, 0.51, 0.49])
FAILS = found([1.0, 0.99, 1.0], [0.5, 0.51, 0.5], [1.0, 0.99, 1.0])
UNDECIDED = found([1.0, 0.5, 1.0], [0.5, 0.51, 0.5], [0.5, 0.51, 0.49])
