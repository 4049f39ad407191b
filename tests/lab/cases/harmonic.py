"""Numbers with which perplexity would be the harmonic mean."""

from __future__ import annotations

HOLDS = None
FAILS = {"1/2 and 1/8": {"perplexity": 3.2, "harmonic": 3.2, "geometric": 4.0, "arithmetic": 5.0}}
UNDECIDED = None
