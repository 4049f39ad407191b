"""Δ of networks that add up, and of networks that remove noise."""

from __future__ import annotations

from unspool.lab import Found

LINEAR = [
    {
        "weights": [0.9, -0.5],
        "measured": [6.0, -3.3],
        "formula": [6.0, -3.3],
        "kernel": [1.0, 0.4],
        "removed": [[1.0, -0.5], [1.0, 0.9]],
    }
] * 2


def found(accumulate: list[float], denoise: list[float]) -> Found:
    """Numbers with this Δ of layer 1, one per seed; that of layer 2 is small."""
    runs = [("accumulate", one) for one in accumulate] + [("denoise", one) for one in denoise]
    trained = [{"task": task, "delta": [one, 0.001], "error": 0.1} for task, one in runs]
    return {"linear": LINEAR, "trained": trained}


HOLDS = found([5.0, 6.0, 5.5], [-0.5, -0.6, -0.5])
FAILS = found([5.0, 6.0, 5.5], [0.5, 0.6, 0.5])
UNDECIDED = found([5.0, 6.0, 5.5], [0.5, -0.6, 0.1])
