"""Numbers of equilibrium layers that refute the claim: one at ρ = 1.2 is not refused."""

from __future__ import annotations

HOLDS = None
FAILS = {
    "cases": {"elman": {"values": 0.0, "unrolled": 1e-14, "neumann": [0.5, 1e-14]}},
    "refused": {"0.99": 0.0, "1.0": 1.0, "1.2": 0.0},
}
UNDECIDED = None
