"""Accuracies of Elman's and Jordan's networks that decide the claim, or leave it open."""

from __future__ import annotations

from unspool.lab import Found

TASKS = ("latch", "echo 0", "echo 1", "echo 2", "echo 3")


def found(jordan: list[float]) -> Found:
    """Jordan's accuracies on the echo of 2 steps, one per seed."""
    elman = {task: [1.0, 1.0, 0.99] for task in TASKS}
    return {"Elman": elman, "Jordan": {**elman, "echo 2": jordan, "echo 3": [0.5, 0.5, 0.5]}}


HOLDS = found([0.5, 0.51, 0.5])
FAILS = found([1.0, 0.99, 1.0])
UNDECIDED = found([0.5, 1.0, 0.6])
