"""Clusters: whether states lie in groups that agree with labels which the network was not told."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unspool.cells.cell import check_size
from unspool.errors import ArgumentError, ShapeError
from unspool.insight.measures.token_states import link, plane

Array = NDArray[np.float64]
Numbers = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Clusters:
    """Points in clusters, and how well the clusters agree with labels."""

    labels: tuple[str, ...]  # of the points
    numbers: Numbers  # (n,): the cluster of each point, from 0
    purity: float  # fraction of points whose label is the most frequent one of their cluster
    chance: float  # the same with the labels shuffled, on average
    limit: float  # and what 95 % of the shuffles do not exceed
    points2d: Array  # (n, 2): the points in their first two principal components


def measure_clusters(
    points: ArrayLike, labels: Sequence[object], clusters: int | None = None, shuffles: int = 1000, seed: int = 0
) -> Clusters:
    """Cluster points by Ward's method, without their labels, and compare the clusters with the labels.

    Use it on the mean states of words with their parts of speech, or on the states of one word at its occurrences
    with its roles.

    Args:
        points: (n, width), such as states.
        labels: one per point, of any kind.
        clusters: how many; by default as many as there are different labels.
        shuffles: how often labels are shuffled to find what chance gives.
        seed: of the shuffles.

    Returns:
        The clusters with their purity, and the purity of shuffled labels.

    Example:
        >>> found = measure_clusters([[0.0], [0.1], [5.0], [5.1]], ["noun", "noun", "verb", "verb"])
        >>> found.purity, found.numbers.tolist()
        (1.0, [0, 0, 1, 1])
    """
    places = np.asarray(points, np.float64)
    if places.ndim != 2 or len(places) != len(labels) or not len(labels):
        problem = f"does not have one row for each of {len(labels)} labels"
        raise ShapeError.of("points", places.shape, problem, "Give points of shape (n, width) and n labels")
    if not np.isfinite(places).all():
        raise ArgumentError("`points` contains NaN or inf. Take such points out first.")
    names = [str(label) for label in labels]
    kinds = np.unique(names, return_inverse=True)[1]
    wanted = int(kinds.max()) + 1 if clusters is None else check_size("clusters", clusters)
    if wanted > len(names):
        raise ArgumentError.of("clusters", wanted, f"is more than the {len(names)} points", "Give fewer")
    numbers = cut(link(places), len(names), wanted)
    chance = np.random.default_rng(seed)
    shuffled = [purity(numbers, chance.permutation(kinds)) for _ in range(check_size("shuffles", shuffles))]
    return Clusters(
        labels=tuple(names),
        numbers=numbers,
        purity=purity(numbers, kinds),
        chance=float(np.mean(shuffled)),
        limit=float(np.quantile(shuffled, 0.95)),
        points2d=plane(places),
    )


def cut(linkage: Array, count: int, clusters: int) -> Numbers:
    """The cluster of each point, where a tree of joined clusters still has so many; numbered by their first points."""
    members = [[point] for point in range(count)]
    for left, right in linkage[: count - clusters, :2].astype(np.int64):
        members.append(members[left] + members[right])
        members[left] = members[right] = []
    numbers = np.zeros(count, np.int64)
    for number, cluster in enumerate(sorted(filter(None, members), key=min)):
        numbers[cluster] = number
    return numbers


def purity(numbers: Numbers, kinds: Numbers) -> float:
    """The fraction of points whose kind is the most frequent one of their cluster."""
    counts = np.zeros((numbers.max() + 1, kinds.max() + 1), np.int64)
    np.add.at(counts, (numbers, kinds), 1)
    return float(counts.max(1).sum() / len(kinds))
