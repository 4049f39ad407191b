"""Numbers of truncation that decide the claim, or leave it open."""

from __future__ import annotations

from unspool.lab import Found


def found(at_20: list[float]) -> Found:
    """Accuracies with these at a window of 20 steps."""
    chance, solved = [0.5, 0.51, 0.49], [1.0, 1.0, 0.99]
    return {
        "bias": {"elman": [1e-16, 1e-15]},
        "updates": 100,
        "accuracy": {"5": chance, "10": chance, "20": at_20, "40": solved},
    }


HOLDS = found([0.51, 0.5, 0.52])
FAILS = found([0.9, 0.95, 0.92])
UNDECIDED = found([0.9, 0.5, 0.5])
