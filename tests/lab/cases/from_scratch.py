"""Numbers of two layers that differ from the loop."""

from __future__ import annotations

from typing import Any


def case(dtype: str, difference: float) -> dict[str, Any]:
    rest = {"layer": "torch.nn.RNN", "bias": True, "last": 0.0, "example": [[0.0] * 3] * 4}
    return {"dtype": dtype, "states": difference, **rest}


HOLDS = None
FAILS = {"cases": [case("float32", 1e-7), case("float64", 1e-7)]}
UNDECIDED = None
