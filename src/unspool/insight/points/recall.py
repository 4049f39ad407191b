"""Recall: how many of all points a search has probably found, judged by how often it came to each.

Points that only one start reached say that there are others that none has reached. Chao's estimate of the number of
species makes a number of it, and Good and Turing's the probability that one more start finds something new.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Recall:
    """An estimate of what a search has missed.

    Attributes:
        found: points that were found.
        total: points that exist, by Chao's estimate, with its correction of bias: S + f₁(f₁ − 1) / 2(f₂ + 1) where f₁
            points were reached once and f₂ twice. A lower bound: it does not know points that no start can reach.
        new: the probability that the next start finds a new point, by Good and Turing's estimate f₁/n.
        fraction: found / total; NaN if no start arrived at any point.
    """

    found: int
    total: float
    new: float
    fraction: float


def estimate_recall(counts: NDArray[np.int64]) -> Recall:
    """The estimate from how many independent starts came to each point.

    Args:
        counts: per point; 0 for one that was found in another way than by independent starts.

    Returns:
        The estimate.

    Example:
        >>> estimate_recall(np.array([5, 3, 1, 1, 2])).total
        5.5
    """
    reached = counts[counts > 0]
    known = len(counts)
    if not len(reached):
        return Recall(known, float("nan"), float("nan"), float("nan"))
    once, twice = int((reached == 1).sum()), int((reached == 2).sum())
    total = max(float(known), len(reached) + once * (once - 1) / (2 * (twice + 1)))
    # A single start that arrived at a single point says nothing of others.
    new = once / int(reached.sum())
    return Recall(known, total, new, known / total if new < 1 else float("nan"))
