"""Gradients that starve the beginning and the lowest layer, or do not."""

from __future__ import annotations

from unspool.lab import Found
from unspool.lab.chapters.starving import STEPS


def run(early: float, lowest: float) -> Found:
    """Numbers of a stack whose lowest layer gets these fractions in the first half and in the second half of steps."""
    half = STEPS // 2
    layers = [[early] * half + [lowest] * half, [early] * half + [0.7] * half, [early] * half + [1.0] * half]
    return {"before": layers, "after": layers}


def found(early: list[float], lowest: float) -> Found:
    return {"runs": {"last": [run(one, lowest) for one in early], "all": [run(0.5, 0.9) for _ in early]}}


HOLDS = found([1e-5, 2e-5, 1e-5], 0.3)
FAILS = found([0.3, 0.4, 0.35], 0.3)
UNDECIDED = found([1e-5, 0.5, 1e-2], 0.3)
