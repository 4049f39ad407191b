"""Numbers of bidirectional networks that decide the claim, or leave it open."""

from __future__ import annotations

from unspool.lab import Found
from unspool.lab.chapters.bidirectional_limits import DISTANCES, MODELS


def found(far: list[float], early: float = 0.0) -> Found:
    """Accuracies with these of both directions at the long distance; `early`: what a forward output changes."""
    short, long = map(str, DISTANCES)
    good = [1.0, 0.99, 1.0]
    accuracy = {name: {short: good, long: good} for name in MODELS} | {MODELS[1]: {short: good, long: far}}
    waits = {"one direction": [early] * 15, "both directions": [0.1] * 15}
    return {"waits": waits, "steps": 100, "accuracy": accuracy}


HOLDS = found([0.5, 0.52, 0.49])
FAILS = found([1.0, 0.99, 1.0])
UNDECIDED = found([0.5, 0.9, 0.5])
