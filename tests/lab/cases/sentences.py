"""Surprises at sentences that decide the claim, or leave it open."""

from __future__ import annotations

from unspool.lab import Found


def found(*sentences: list[float]) -> Found:
    """Surprises per character at the three sentences, one list per seed."""
    lengths = [1.4 * length + 2.0 for length in (25, 50, 100, 200, 400, 800)]
    return {"seeds": [{"sentences": each, "lengths": lengths} for each in sentences]}


HOLDS = found([2.0, 2.6, 4.2], [2.0, 2.7, 4.1], [1.9, 2.5, 4.1])
FAILS = found([2.6, 2.0, 4.2], [2.7, 2.0, 4.1], [2.5, 1.9, 4.1])
UNDECIDED = found([2.0, 2.6, 4.2], [2.0, 2.0, 4.1], [2.3, 2.2, 4.1])
