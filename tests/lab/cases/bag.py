"""Accuracies of a bag and of recurrent networks that decide the claim, or leave it open."""

from __future__ import annotations

from unspool.lab import Found


def found(bag: list[float], apart: float = 0.0) -> Found:
    """The bag's accuracies, one per seed, and how far apart it puts 我爱你 and 你爱我."""
    recurrent = [{"accuracy": 1.0, "apart": 1.4}] * 3
    return {"bag": [{"accuracy": each, "apart": apart} for each in bag], "Elman": recurrent, "GRU": recurrent}


HOLDS = found([0.5, 0.49, 0.51])
FAILS = found([0.5, 0.49, 0.51], apart=0.2)
UNDECIDED = found([0.5, 0.9, 0.6])
