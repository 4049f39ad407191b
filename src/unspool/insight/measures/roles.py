"""Roles: the states of one word at its occurrences, and whether they differ by the role that it has there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from unspool.errors import ArgumentError, ShapeError
from unspool.insight.measures.clusters import measure_clusters

if TYPE_CHECKING:
    from unspool.insight.states import States

Array = NDArray[np.float64]
Numbers = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Roles:
    """One word at its occurrences, each with its role."""

    word: str
    roles: tuple[str, ...]  # (n,)
    rows: Numbers  # (n,): places among the rows of the states
    contexts: tuple[str, ...]  # (n,): the words up to each occurrence
    points2d: Array  # (n, 2): the states in their first two principal components
    clusters: Numbers  # (n,): the cluster of each, found without the roles
    purity: float  # fraction of occurrences whose role is the most frequent one of their cluster
    chance: float  # the same with shuffled roles, on average
    limit: float  # and what 95 % of the shuffles do not exceed
    same: float  # mean distance between states of one role; NaN if no role occurs twice
    other: float  # and between states of different roles; NaN if there is one role


def find_word(states: States, word: str) -> Numbers:
    """The rows at which a word stands, in the order of the text.

    Args:
        states: as `extract_states` gives them.
        word: a token of that text.

    Returns:
        The places of its occurrences, (n,).

    Example:
        >>> find_word(extract_states("runs/book"), "boy")  # doctest: +SKIP
        array([  4,  31, 112])
    """
    rows = np.flatnonzero(states.tokens == word)
    if not len(rows):
        raise ArgumentError.of("word", word, "does not occur", f"Give one such as {', '.join(states.tokens[:3])}")
    return rows


def measure_roles(
    states: States, word: str, roles: Sequence[object], context: int = 6, shuffles: int = 1000, seed: int = 0
) -> Roles:
    """Cluster the states of one word at its occurrences, and compare the clusters with the roles that it has there.

    Args:
        states: as `extract_states` gives them.
        word: a token of that text.
        roles: one per occurrence, in the order of the text, such as "subject" and "object".
        context: words of each context that are kept.
        shuffles: how often roles are shuffled to find what chance gives.
        seed: of the shuffles.

    Returns:
        The occurrences in a plane, their clusters, and how well these agree with the roles.

    Example:
        >>> states = extract_states("runs/book")  # doctest: +SKIP
        >>> found = measure_roles(states, "boy", ["subject", "object", "subject"])  # doctest: +SKIP
        >>> found.purity, found.chance  # doctest: +SKIP
    """
    rows = find_word(states, word)
    if len(roles) != len(rows):
        problem = f"does not have one role for each of {len(rows)} occurrences of {word!r}"
        raise ShapeError.of("roles", len(roles), problem, "Give one per row of `find_word(states, word)`")
    values = states.values[rows].astype(np.float64)
    found = measure_clusters(values, roles, shuffles=shuffles, seed=seed)
    same, other = _mean_distances(values, np.unique(found.labels, return_inverse=True)[1])
    return Roles(
        word=word,
        roles=found.labels,
        rows=rows,
        contexts=tuple(_context(states, int(row), context) for row in rows),
        points2d=found.points2d,
        clusters=found.numbers,
        purity=found.purity,
        chance=found.chance,
        limit=found.limit,
        same=same,
        other=other,
    )


def _mean_distances(values: Array, kinds: NDArray[np.intp]) -> tuple[float, float]:
    one, other = np.triu_indices(len(values), 1)
    distances = np.linalg.norm(values[one] - values[other], axis=1)
    alike = kinds[one] == kinds[other]
    same, different = (float(distances[which].mean()) if which.any() else np.nan for which in (alike, ~alike))
    return same, different


def _context(states: States, row: int, count: int) -> str:
    first = max(0, row - count + 1)
    own = states.sequence[first : row + 1] == states.sequence[row]
    return " ".join(states.tokens[first : row + 1][own])
