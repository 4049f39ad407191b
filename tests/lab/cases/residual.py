"""Numbers of residual connections that decide the claim, or leave it open."""

from __future__ import annotations

from unspool.lab import Found
from unspool.lab.chapters.residual import CELLS, GAP


def found(residual: list[float], identity: float = 1e-16) -> Found:
    """Accuracies with these of the residual cell."""
    accuracy = {"elman": [0.5, 0.51, 0.49], "residual": residual, "skip": [1.0, 0.99, 1.0]}
    reach = {name: [0.9**step for step in range(GAP + 1)] for name in CELLS}
    return {"identity": identity, "paths": 0.0, "reach": reach, "steps": 100, "accuracy": accuracy}


HOLDS = found([1.0, 1.0, 0.98])
FAILS = found([0.5, 0.5, 0.51])
UNDECIDED = found([1.0, 0.5, 0.5])
