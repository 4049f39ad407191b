"""Numbers of delays that decide the claim, or leave it open."""

from __future__ import annotations

from unspool.lab import Found
from unspool.lab.chapters.delay import DELAYS


def found(late: list[float]) -> Found:
    """Accuracies with these at the largest delay."""
    early = {str(delay): [0.8, 0.81, 0.8] if delay < 4 else [1.0, 0.99, 1.0] for delay in DELAYS}
    return {"steps": 100, "accuracy": early | {str(DELAYS[-1]): late}}


HOLDS = found([0.6, 0.5, 0.5])
FAILS = found([1.0, 0.99, 1.0])
UNDECIDED = found([1.0, 0.6, 0.99])
