"""Accuracies by length that decide the claim, or leave it open."""

from __future__ import annotations

from unspool.lab import Found


def found(parity: list[float]) -> Found:
    """The accuracy of parity at 200 steps, one per seed; all else as it should be."""
    short = {str(T): [1.0, 1.0, 1.0] for T in (10, 20, 50, 100)}
    accuracy = {"parity": {**short, "200": parity}, "flip-flop": {**short, "200": [1.0, 0.99, 1.0]}}
    return {"accuracy": accuracy, "prefix_error": 0.0, "parameters": 3330}


HOLDS = found([0.99, 1.0, 0.98])
FAILS = found([0.5, 0.51, 0.49])
UNDECIDED = found([1.0, 0.5, 1.0])
