"""Accuracies by distance that decide the claim, or leave it open."""

from __future__ import annotations

from unspool.lab import Found

DISTANCES = (2, 4, 5, 8, 9, 16, 17, 40)


def found(beyond: list[float], seen: int = 5) -> Found:
    """Two layers of kernel 3: perfect within the field of 5 steps, and these accuracies beyond it, one per seed."""
    accuracies = [[1.0 if distance < 5 else each for distance in DISTANCES] for each in beyond]
    stack = {"layers": 2, "kernel": 3, "field": 5, "seen": seen, "accuracy": accuracies}
    return {"stacks": [stack], "recurrence": [[1.0] * 8] * len(beyond), "order": 0.0}


HOLDS = found([0.5, 0.51, 0.5])
FAILS = found([0.5, 0.51, 0.5], seen=6)
UNDECIDED = found([0.5, 0.9, 0.5])
