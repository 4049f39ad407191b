"""Numbers of gates that refute the claim; its own measurement is exact."""

from __future__ import annotations

HOLDS = None
FAILS = {
    "differences": {"lstm": 1e-16, "gru": 0.1, "gru-reset-after": 1e-16},
    "norms": {"elman": [1e-9], "lstm, b = 6": [0.9], "gru, b = 6": [0.9]},
}
UNDECIDED = None
