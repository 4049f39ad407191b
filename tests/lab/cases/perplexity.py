"""Numbers of the perplexity chapter that contradict the claim."""

from __future__ import annotations

HOLDS = None
FAILS = {
    "cases": [{"V": 2, "perfect": 1.0, "impossible": "inf", "uniform": 1.9}],
    "curve": [1.0] * 17,
}
UNDECIDED = None
