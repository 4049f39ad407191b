"""Numbers of the relu network that decide the claim; it is exact, so that none leave it open."""

from __future__ import annotations

HOLDS = None
SCALES = (0.9, 1.0, 1.1, 1.3)
POWERS = [[scale**step for step in range(101)] for scale in SCALES]
FAILS = {"scales": SCALES, "states": POWERS, "gradients": [[1.0] * 101] * 4}
UNDECIDED = None
