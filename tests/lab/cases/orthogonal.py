"""Numbers of orthogonal matrices that refute the claim; its own measurement is exact."""

from __future__ import annotations

HOLDS = None
FAILS = {
    "norms": {"0.97": [1.0, 0.97], "1.0": [1.0, 0.9], "1.03": [1.0, 1.03]},
    "trained": {"kept moved": 1.0, "kept distance": 1e-15},
}
UNDECIDED = None
