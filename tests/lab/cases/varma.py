"""Differences between networks and processes that decide the claim; it is exact, so that none leave it open."""

from __future__ import annotations

HOLDS = None
FAILS = {
    "networks": [[1, 1, 1]],
    "network_errors": [1e-15],
    "example": {"network": [1.0, 0.5], "process": [1.0, 0.5]},
    "processes": [[1, 0, 1, 1]],
    "process_errors": [1e-3],
}
UNDECIDED = None
