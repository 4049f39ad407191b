"""A system of which one fixed point was missed."""

from __future__ import annotations

from unspool.lab import Found

THREE = [[0.0, -1.0], [0.0, 0.0], [0.0, 1.0]]


def found(points: list[list[float]]) -> Found:
    """Numbers with these fixed points found, of three that exist."""
    part = {"points": points, "eigenvalues": [[0.3, -0.7] for _ in points], "expected": THREE}
    return {"document": part, "other": part, "dt": [0.2, 0.1], "errors": [0.008, 0.004], "solver_error": 1e-12}


HOLDS = None
FAILS = found(THREE[1:])
UNDECIDED = None
