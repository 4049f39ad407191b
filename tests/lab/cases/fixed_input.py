"""Accuracies with fixed and with free input that decide the claim, or leave it open."""

from __future__ import annotations

from unspool.lab import Found


def found(recurrent: list[float], padded: list[float], truncated: list[float]) -> Found:
    """These accuracies, one per seed, in both tasks."""
    scores = {"recurrent": recurrent, "padded MLP": padded, "truncated MLP": truncated}
    return {"accuracy": {name: {"parity": each, "majority": each} for name, each in scores.items()}}


HOLDS = found([1.0, 0.99, 1.0], [0.8, 0.79, 0.81], [0.7, 0.71, 0.7])
FAILS = found([1.0, 0.99, 1.0], [1.0, 0.99, 1.0], [0.7, 0.71, 0.7])
UNDECIDED = found([1.0, 0.7, 1.0], [0.8, 0.79, 0.81], [0.7, 0.71, 0.7])
