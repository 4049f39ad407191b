"""Errors and gates of plain, open and penalized networks."""

from __future__ import annotations

from unspool.lab import Found


def runs(errors: list[float], closed: float) -> list[Found]:
    return [{"error": one, "closed": closed + 0.01 * seed} for seed, one in enumerate(errors)]


def found(opened: list[float], left: float = 0.01) -> Found:
    """Numbers with these errors of the open network, and this signal left by two gates of 0.1."""
    networks = {
        "plain": runs([0.10, 0.11, 0.12], 0.3),
        "open": runs(opened, 0.0),
        "penalized": runs([0.10, 0.11, 0.12], 0.05),
    }
    return {"left": [{"o": 0.1, "i": 0.1, "measured": left}], "runs": networks}


HOLDS = found([0.20, 0.23, 0.22])
FAILS = found([0.05, 0.06, 0.05])
UNDECIDED = found([0.05, 0.30, 0.12])
