"""Losses of encoder–decoders that decide the claim, or leave it open."""

from __future__ import annotations

from unspool.lab import Found


def found(deep: list[float]) -> Found:
    """Runs in which three layers have these last losses, one per seed, and the others 0.5."""
    last = {"1 layer": [0.5] * 3, "2 layers": [0.5] * 3, "3 layers": deep, "1 wide layer": [0.5] * 3}
    runs = {
        name: [{"losses": [1.0] * 9 + [loss], "right": 0.1, "parameters": 20_000} for loss in losses]
        for name, losses in last.items()
    }
    return {"steps": 400, "runs": runs}


HOLDS = found([0.3, 0.31, 0.29])
FAILS = found([0.7, 0.71, 0.69])
UNDECIDED = found([0.3, 0.7, 0.5])
