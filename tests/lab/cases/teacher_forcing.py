"""Accuracies with and without teacher forcing that decide the claim, or leave it open."""

from __future__ import annotations

from typing import Any

from unspool.lab import Found


def checks(learned: int, lost: float = 0.3) -> list[dict[str, list[float]]]:
    """Accuracies by step: 0.5 up to a check, then 1 on true letters, and less at the last step on own ones."""
    early = {"forced": [0.5] * 12, "free": [0.5] * 12}
    late = {"forced": [1.0] * 12, "free": [1.0] * 11 + [1.0 - lost]}
    return [early] * learned + [late] * (20 - learned)


def found(*seeds: tuple[int, int], lost: float = 0.3) -> Found:
    """For each seed, after how many checks it is learned with and without teacher forcing."""
    runs: list[dict[str, Any]] = [
        {"teacher forcing": checks(forced, lost), "free running": checks(free, lost)} for forced, free in seeds
    ]
    return {"updates": 400, "seeds": runs}


HOLDS = found((8, 20), (9, 20), (10, 19))
FAILS = found((8, 20), (9, 20), (10, 19), lost=0.0)
UNDECIDED = found((8, 20), (20, 9), (10, 19))
