"""The estimate of recall against sampling of which all is known, and closed forms."""

from __future__ import annotations

import math

import numpy as np
import pytest

from unspool.insight.points.recall import estimate_recall
from unspool.insight.points.spectrum import frequencies, time_constants


@pytest.mark.parametrize("draws", [30, 60, 200])
def test_the_estimate_follows_the_truth(draws: int) -> None:
    """30 points of equal probability: the mean of the estimates is near to the share that was really found."""
    rng = np.random.default_rng(0)
    truth, told, new, unseen = [], [], [], []
    for _ in range(400):
        counts = np.bincount(rng.integers(30, size=draws), minlength=30)
        found = estimate_recall(counts[counts > 0])
        truth.append((counts > 0).mean())
        told.append(found.fraction)
        new.append(found.new)
        unseen.append((counts == 0).mean())  # the probability that the next draw is new
    assert abs(np.nanmean(told) - np.mean(truth)) < 0.06
    assert abs(np.mean(new) - np.mean(unseen)) < 0.03


def test_closed_forms() -> None:
    assert estimate_recall(np.array([5, 3, 1, 1, 2])).total == 5 + 1 * 2 / (2 * 2)
    assert estimate_recall(np.array([4, 4])).fraction == 1.0
    assert estimate_recall(np.array([0, 4])).found == 2  # one by a guided start
    assert math.isnan(estimate_recall(np.array([1])).fraction)  # a single start tells nothing of others
    assert math.isnan(estimate_recall(np.zeros(0, np.int64)).fraction)


def test_time_constants_and_frequencies() -> None:
    values = np.array([[0.5, 2.0, 1.0, 0.0, -1.0, 0.9j]], complex)
    expected = [0.1 / math.log(2), -0.1 / math.log(2), math.inf, 0.0, math.inf, -0.1 / math.log(0.9)]
    np.testing.assert_allclose(time_constants(values, 0.1), [expected])
    np.testing.assert_allclose(frequencies(values, 0.1), [[0, 0, 0, 0, 5, 2.5]])
