"""Times of recurrence and attention that decide the claim; times of a busy machine leave it open."""

from __future__ import annotations

from unspool.lab import Found

LENGTHS = [64, 128, 256, 512, 1024]


def found(scale: float) -> Found:
    """Recurrences of 2 and 20 µs per step beside attention of `scale` µs per pair of steps."""
    attention = [scale * 1e-6 * T**2 for T in LENGTHS]
    steps = {"compiled recurrence": 2e-6, "recurrence step by step": 2e-5}
    seconds = {
        kind: {"lengths": LENGTHS, "recurrence": [each * T for T in LENGTHS], "attention": attention}
        for kind, each in steps.items()
    }
    return {"seconds": seconds, "threads": 2}


HOLDS = found(0.1)
FAILS = found(0.01)
#: Times that do not grow with T are those of a busy machine.
UNDECIDED = {
    "seconds": {kind: each | {"recurrence": [0.01] * len(LENGTHS)} for kind, each in found(0.1)["seconds"].items()},
    "threads": 2,
}
