"""Numbers of opinion pools that decide the claim, or leave it open."""

from __future__ import annotations

from unspool.lab import Found
from unspool.lab.chapters.opinion_pools import MODELS, TASKS


def found(*joint: float) -> Found:
    """Runs with these losses of the joint network, on both tasks; all other losses are 0.5."""
    runs = [dict.fromkeys(MODELS, 0.5) | {"joint": loss} for loss in joint]
    return {"steps": 100, "runs": dict.fromkeys(TASKS, runs)}


HOLDS = found(0.4, 0.41, 0.39)
FAILS = found(0.6, 0.61, 0.6)
UNDECIDED = found(0.4, 0.6, 0.5)
