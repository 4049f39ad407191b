"""Errors of filter, smoother and networks that decide the claim, or leave it open."""

from __future__ import annotations

from unspool.lab import Found


def found(forward: list[float], bidirectional: list[float], smoother: float = 0.2) -> Found:
    """Errors of the networks, one per seed, beside a filter of 0.3."""
    errors = {"filter": [0.3, 0.31, 0.29], "smoother": [0.2, 0.21, 0.19]}
    return {
        "filter": [[0.3] * 40],
        "smoother": [[smoother] * 40],
        "errors": {**errors, "forward": forward, "bidirectional": bidirectional},
    }


HOLDS = found([0.31, 0.315, 0.30], [0.205, 0.215, 0.195])
FAILS = found([0.31, 0.315, 0.30], [0.18, 0.19, 0.17])
UNDECIDED = found([0.31, 0.36, 0.30], [0.205, 0.215, 0.195])
