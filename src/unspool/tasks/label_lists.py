"""Lists of labels: some of them in words, and the best ones of a prediction."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

#: Labels, or tags, that a description lists.
LISTED = 8


def list_some(names: Sequence[str]) -> str:
    """The first of several names.

    Args:
        names: Labels or tags.

    Returns:
        At most `LISTED` of them, and "…" where there are more.

    Example:
        >>> list_some(["B-city", "O"])
        'B-city, O'
    """
    return ", ".join(map(str, names[:LISTED])) + ", …" * (len(names) > LISTED)


def rank_labels(labels: Sequence[str], probabilities: NDArray[np.float64], top: int) -> Iterator[tuple[str, Any]]:
    """The most probable labels, the best one first.

    Args:
        labels: All labels.
        probabilities: The probability of each.
        top: How many are wanted; all where there are fewer.

    Returns:
        Columns of a table and their values.

    Example:
        >>> dict(rank_labels(["x", "y"], np.array([0.25, 0.75]), 1))
        {'label': 'y', 'probability': 0.75}
    """
    best = np.argsort(-probabilities, kind="stable")
    names = iter(ranked_columns(labels, top))
    for place in best[:top]:
        yield next(names), labels[place]
        yield next(names), float(probabilities[place])


def ranked_columns(labels: Sequence[str], top: int) -> tuple[str, ...]:
    """The columns that `rank_labels` fills.

    Args:
        labels: All labels.
        top: How many are wanted.

    Example:
        >>> ranked_columns(["x", "y"], 2)
        ('label', 'probability', 'label 2', 'probability 2')
    """
    ranks = ["", *(f" {rank}" for rank in range(2, min(top, len(labels)) + 1))]
    return tuple(f"{name}{rank}" for rank in ranks for name in ("label", "probability"))
