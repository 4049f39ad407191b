"""Clusters against SciPy's trees, and against purities counted by hand."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.cluster.hierarchy import fcluster, linkage

from unspool.errors import ArgumentError, ShapeError
from unspool.insight import measure_clusters


@pytest.mark.parametrize("clusters", [1, 2, 5, 30])
def test_the_clusters_are_those_of_scipy(clusters: int) -> None:
    points = np.random.default_rng(0).normal(size=(30, 4))
    found = measure_clusters(points, ["a", "b"] * 15, clusters, shuffles=1).numbers
    expected = fcluster(linkage(points, "ward"), clusters, "maxclust")
    together = expected[:, None] == expected
    assert np.array_equal(found[:, None] == found, together)
    assert len(set(found.tolist())) == clusters


def test_purity_is_the_fraction_of_the_most_frequent_label() -> None:
    points = [[0.0], [0.1], [0.2], [9.0], [9.1]]
    found = measure_clusters(points, ["x", "x", "y", "y", "y"])
    assert found.numbers.tolist() == [0, 0, 0, 1, 1]
    assert found.purity == pytest.approx(4 / 5)


def test_chance_is_that_of_all_orders_of_the_labels() -> None:
    # of the 6 ways to give two of four points the label x, two agree with the clusters and four are half right
    found = measure_clusters([[0.0], [0.1], [9.0], [9.1]], "xxyy", shuffles=4000)
    assert found.chance == pytest.approx((2 * 1 + 4 * 0.5) / 6, abs=0.02)
    assert found.limit == 1.0


def test_labels_without_clusters_have_a_purity_within_chance() -> None:
    chance = np.random.default_rng(1)
    found = measure_clusters(chance.normal(size=(80, 3)), chance.integers(0, 2, 80).tolist())
    assert found.purity <= found.limit


def test_bad_points_are_refused() -> None:
    with pytest.raises(ShapeError, match="one row for each of 2 labels"):
        measure_clusters([[0.0]], ["a", "b"])
    with pytest.raises(ArgumentError, match="NaN"):
        measure_clusters([[0.0], [np.nan]], ["a", "b"])
    with pytest.raises(ArgumentError, match="more than the 2 points"):
        measure_clusters([[0.0], [1.0]], ["a", "b"], clusters=3)
