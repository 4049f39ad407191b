"""Numbers of word classes that decide the claim, or leave it open."""

from __future__ import annotations

from unspool.lab import Found
from unspool.lab.chapters.word_classes import KINDS


def found(*purities: float) -> Found:
    """Runs with these purities after training, of both kinds."""

    def of(purity: float) -> dict[str, dict[str, float]]:
        return {kind: {"purity": purity, "chance": 0.6, "limit": 0.75} for kind in KINDS}

    places = [[float(word), 1.0] for word in range(32)]
    runs = [{"before": of(0.6), "after": of(purity), "points": places} for purity in purities]
    return {"steps": 100, "runs": runs}


HOLDS = found(1.0, 0.97, 1.0)
FAILS = found(0.6, 0.62, 0.61)
UNDECIDED = found(1.0, 0.6, 0.8)
