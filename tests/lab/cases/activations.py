"""Numbers of activations that refute the claim; its own measurement is exact."""

from __future__ import annotations

from unspool.lab import Found


def found(last: float) -> Found:
    """Norms of products over many steps that end here, on inputs that are not 0."""
    driven = {"measured": [1.0, last], "difference": 0.0}
    tanh = {"0.0": {"measured": [1.0, 1.0], "difference": 0.0}, "0.1": driven, "0.5": driven, "1.0": driven}
    return {"tanh": tanh, "relu": {"bias": 4.0, "others": 1.0, "gradient": 0.0, "dead": 0.25}}


HOLDS = None
FAILS = found(1.0)
UNDECIDED = None
