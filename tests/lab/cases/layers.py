"""Losses by depth that decide the claim, or leave it open."""

from __future__ import annotations

from unspool.lab import Found


def found(deep: list[float]) -> Found:
    """Stacks of which those with six layers have these losses, one per seed, and all others about 1.6."""
    losses = {layers: [1.60, 1.61, 1.62] for layers in range(1, 6)} | {6: deep}
    stacks = [
        {"layers": layers, "width": 90 - 10 * layers, "parameters": 40_000, "losses": each}
        for layers, each in losses.items()
    ]
    return {"steps": 300, "stacks": stacks}


HOLDS = found([1.70, 1.71, 1.72])
FAILS = found([1.40, 1.41, 1.42])
UNDECIDED = found([1.60, 1.50, 1.62])
