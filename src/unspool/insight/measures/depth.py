"""Depth: the number of nonlinear layers at which what depth gains and what it costs are in balance.

A(N) = A_min + (A_max − A_min)(1 − e^(−bN)) m^N. Each layer leaves the fraction e^(−b) of what the network cannot
express, and the fraction m of what training can reach.
"""

from __future__ import annotations

import math

from unspool.errors import ArgumentError


def optimal_depth(gain: float, kept: float) -> float:
    """The depth N* = ln(1 − b / ln m) / b at which A(N) is largest.

    Args:
        gain: b, which is positive: how fast depth adds to what the network can express.
        kept: m, above 0 and at most 1: the fraction that each layer leaves trainable.

    Returns:
        N*, in layers; infinite for m = 1, where depth costs nothing.

    Example:
        >>> round(optimal_depth(gain=1.0, kept=0.9), 2)
        2.35
    """
    if not 0 < gain < math.inf:
        raise ArgumentError.of("gain", gain, "is not a positive number", "Give b > 0, such as 1")
    if not 0 < kept <= 1:
        raise ArgumentError.of("kept", kept, "is not in (0, 1]", "Give m above 0 and at most 1, such as 0.9")
    return math.inf if kept == 1 else math.log1p(-gain / math.log(kept)) / gain
