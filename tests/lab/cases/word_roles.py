"""Numbers of word roles that decide the claim, or leave it open."""

from __future__ import annotations

from unspool.lab import Found


def found(*purities: float) -> Found:
    """Runs with these purities after training."""

    def of(purity: float) -> dict[str, float]:
        return {"purity": purity, "chance": 0.55, "limit": 0.6, "previous word": 0.52}

    cloud = {"subject": [[0.0, 1.0]], "object": [[1.0, 0.0]]}
    return {"steps": 100, "runs": [{"before": of(0.55), "after": of(purity), "cloud": cloud} for purity in purities]}


HOLDS = found(1.0, 0.98, 0.99)
FAILS = found(0.55, 0.53, 0.54)
UNDECIDED = found(1.0, 0.53, 0.6)
