"""Times of recurrence and attention that decide the claim; no time leaves it open."""

from __future__ import annotations

from unspool.lab import Found

LENGTHS = [64, 128, 256, 512, 1024]


def found(scale: float) -> Found:
    """A recurrence of 20 µs per step beside attention of `scale` µs per pair of steps."""
    recurrence = [2e-5 * T for T in LENGTHS]
    attention = [scale * 1e-6 * T**2 for T in LENGTHS]
    return {
        "lengths": LENGTHS,
        "seconds": {
            "recurrence beside attention": recurrence,
            "attention": attention,
            "recurrence beside fused attention": recurrence,
            "fused attention": [0.5 * each for each in attention],
        },
        "threads": 2,
    }


HOLDS = found(0.1)
FAILS = found(0.01)
UNDECIDED = None
