"""Signals of two scales against their autocorrelation and their parts."""

from __future__ import annotations

import numpy as np
import pytest

from unspool.errors import ArgumentError
from unspool.lab.data import two_scales


def test_the_sum_is_seen_with_noise_of_the_size_that_is_asked_for() -> None:
    x, y = two_scales(200, 400, noise=0.3)
    assert np.std(x[..., 0] - y.sum(-1)) == pytest.approx(0.3, rel=0.02)


@pytest.mark.parametrize("lag", [1, 5, 20])
def test_correlations_fade_by_the_time_constants(lag: int) -> None:
    _, y = two_scales(60, 20_000, fast=3.0, slow=25.0, seed=1)
    assert np.square(y).mean((0, 1)) == pytest.approx([1.0, 1.0], abs=0.02)
    product = (y[lag:] * y[:-lag]).mean((0, 1))
    assert product == pytest.approx(np.exp(-lag / np.array([3.0, 25.0])), abs=0.02)
    assert abs(float((y[..., 0] * y[..., 1]).mean())) < 0.02  # the processes are independent


def test_every_step_has_the_same_variance() -> None:
    _, y = two_scales(3, 40_000, slow=50.0)
    assert np.square(y).mean(1) == pytest.approx(np.ones((3, 2)), abs=0.03)


def test_a_seed_repeats_the_signal() -> None:
    assert (two_scales(20, 3, seed=4)[0] == two_scales(20, 3, seed=4)[0]).all()
    assert (two_scales(20, 3, seed=4)[0] != two_scales(20, 3, seed=5)[0]).any()


def test_time_constants_must_be_positive() -> None:
    with pytest.raises(ArgumentError, match="fast"):
        two_scales(20, 3, fast=0.0)
    with pytest.raises(ArgumentError, match="slow"):
        two_scales(20, 3, slow=-1.0)
