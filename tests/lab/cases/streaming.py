"""Costs of streaming that decide the claim; no cost leaves it open."""

from __future__ import annotations

from unspool.lab import Found


def found(last: float) -> Found:
    """Seconds of one more step after a million, beside 10 µs after ten."""
    return {
        "bytes": {"recurrence": [1, 2, 4, 8, 16], "attention": [1, 4, 16, 64, 256]},
        "positions": {"recurrence": [10, 1_000_000], "attention": [10, 2000]},
        "seconds": {"recurrence": [1e-5, last], "attention": [1e-4, 3e-4]},
    }


HOLDS = found(1.02e-5)
FAILS = found(2e-5)
UNDECIDED = None
