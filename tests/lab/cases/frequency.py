"""Gains that the formula does not give."""

from __future__ import annotations

HOLDS = None
FAILS = {
    "omega": [0.1, 1.0],
    "stacks": [
        {"weights": [0.2], "measured": [[1.2, 1.1]], "formula": [[1.2, 1.1]]},
        {"weights": [0.2, 0.6], "measured": [[1.2, 1.1], [3.0, 2.0]], "formula": [[1.2, 1.1], [3.0, 2.001]]},
    ],
}
UNDECIDED = None
