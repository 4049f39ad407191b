"""Accuracies by depth that decide the claim, or leave it open."""

from __future__ import annotations

from unspool.lab import Found


def found(deep: list[float]) -> Found:
    """Stacks of which those with six layers have these accuracies, one per seed, and all others about 0.9."""
    accuracies = {layers: [0.90, 0.91, 0.92] for layers in range(1, 6)} | {6: deep}
    stacks = [
        {"layers": layers, "width": 90 - 10 * layers, "parameters": 16_000, "accuracy": each}
        for layers, each in accuracies.items()
    ]
    return {"steps": 160, "stacks": stacks}


HOLDS = found([0.80, 0.81, 0.82])
FAILS = found([0.98, 0.99, 0.99])
UNDECIDED = found([0.90, 0.99, 0.94])
