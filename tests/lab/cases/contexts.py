"""Ratios of distances that decide the claim, or leave it open."""

from __future__ import annotations

from unspool.lab import Found


def found(played: list[float]) -> Found:
    """Ratios of 周杰伦 in a forward network, one per seed."""
    before = {"周杰伦": 1.0, "苹果": 1.0}
    forward = [{"before": before, "after": {"周杰伦": each, "苹果": 1.2}, "beginning": 0.0} for each in played]
    both = [{"before": before, "after": {"周杰伦": 4.0, "苹果": each}, "beginning": 1.4} for each in (3.0, 3.1, 3.2)]
    return {"forward": forward, "bidirectional": both}


HOLDS = found([8.0, 9.0, 10.0])
FAILS = found([1.1, 1.2, 1.15])
UNDECIDED = found([1.1, 9.0, 3.0])
