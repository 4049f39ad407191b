"""Time constants and held bits that decide the claim, or leave it open."""

from __future__ import annotations

import math

from unspool.lab import Found

GATES = (0.5, 0.9, 0.95, 0.99, 0.999, 0.9999)


def found(gru: list[float], lstm: list[float]) -> Found:
    """The fractions that are told after 5,000 steps, one per seed."""
    tau = [-0.02 / math.log(gate) for gate in GATES]
    return {
        "gates": GATES,
        "decay": tau,
        "gate": tau,
        "held": {name: [[1.0, 1.0, 1.0, last] for last in each] for name, each in (("gru", gru), ("lstm", lstm))},
        "longest": {"gru": [50.0, 60.0, 55.0], "lstm": [80.0, 90.0, 85.0]},
    }


HOLDS = found([1.0, 1.0, 0.99], [1.0, 0.98, 1.0])
FAILS = found([1.0, 1.0, 0.99], [0.5, 0.52, 0.49])
UNDECIDED = found([1.0, 1.0, 0.99], [1.0, 0.5, 1.0])
