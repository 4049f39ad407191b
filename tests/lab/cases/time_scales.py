"""Time constants that separate, or do not."""

from __future__ import annotations

from unspool.lab import Found


def found(upper: list[float]) -> Found:
    """Numbers with these time constants of the upper layer after training on two scales."""
    one = [{"before": [1.5, 1.5], "after": [1.2, 1.2 + 0.01 * seed], "error": 0.5} for seed in range(len(upper))]
    two = [{"before": [1.5, 1.5], "after": [1.2, each], "error": 0.3} for each in upper]
    return {"steps": 500, "runs": {"two scales": two, "one scale": one}}


HOLDS = found([4.0, 5.0, 4.5])
FAILS = found([0.9, 0.8, 0.85])
UNDECIDED = found([0.5, 4.0, 1.3])
