"""Depth: the effective depth of networks, and the curve of the trade-off."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.optimize import minimize
from tests.insight.models import loss_of, small_input, small_stack
from tests.variants import each_cell

from unspool.cells import RHN, Cell, DeepTransition, Elman
from unspool.errors import ArgumentError
from unspool.insight.measures.depth import optimal_depth
from unspool.insight.recording import Recording, record
from unspool.lab.theory.depth import Depth, effective_depth, fit_depth, measure_depth


def recorded(cell: Cell, layers: int, both: bool = False) -> Recording:
    x = small_input(cell)
    return record(small_stack(cell, layers, both), lambda model: loss_of(model(x)[0]))


def test_accuracy_is_the_formula_and_its_slope_vanishes_at_the_optimum() -> None:
    curve = Depth(3, optimal_depth(0.7, 0.93), 0.7, 0.93, 0.25, 0.75)
    assert curve.accuracy(0.0) == 0.25
    assert curve.accuracy(2.0) == pytest.approx(0.25 + 0.5 * (1 - math.exp(-1.4)) * 0.93**2, rel=1e-14)
    slope = (curve.accuracy(curve.optimum + 1e-5) - curve.accuracy(curve.optimum - 1e-5)) / 2e-5
    assert abs(float(slope)) < 1e-9


@each_cell
@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("both", [False, True], ids=["ahead", "both"])
def test_every_network_has_its_layers(cell: Cell, layers: int, both: bool) -> None:
    each = cell.depth if isinstance(cell, DeepTransition | RHN) else 1
    assert measure_depth(recorded(cell, layers, both)).effective == layers * each + 1


@pytest.mark.parametrize("output_layers", [0, 1, 3])
def test_stacks_and_deep_transitions(output_layers: int) -> None:
    assert measure_depth(recorded(Elman(), 3), output_layers).effective == 3 + output_layers
    assert measure_depth(recorded(DeepTransition(4), 1), output_layers).effective == 4 + output_layers
    assert effective_depth(3, output_layers) == 3 + output_layers
    assert effective_depth(1, output_layers, 4) == 4 + output_layers


def test_what_is_given_is_kept() -> None:
    found = measure_depth(recorded(Elman(), 1), gain=0.5, kept=0.8, lowest=0.1, highest=0.6)
    assert (found.gain, found.kept, found.lowest, found.highest) == (0.5, 0.8, 0.1, 0.6)
    assert found.optimum == optimal_depth(0.5, 0.8)


def test_wrong_arguments_are_refused() -> None:
    for layers in ((0,), (1, -1), (1, 1, 0), (True,)):
        with pytest.raises(ArgumentError, match="number of layers"):
            effective_depth(*layers)


@pytest.mark.parametrize(("gain", "kept"), [(0.3, 0.8), (0.7, 0.93), (1.5, 0.97), (3.0, 0.6)])
def test_a_fit_finds_the_curve_that_made_the_numbers(gain: float, kept: float) -> None:
    depths = [1, 2, 3, 4, 6, 8]
    curve = Depth(1, optimal_depth(gain, kept), gain, kept, 0.1, 0.9)
    found = fit_depth(depths, curve.accuracy(depths), lowest=0.1, highest=0.9)
    assert (found.gain, found.kept) == pytest.approx((gain, kept), abs=1e-6)
    assert found.optimum == pytest.approx(curve.optimum, abs=1e-5)


def test_a_fit_of_noisy_numbers_is_the_least_squares() -> None:
    depths = np.arange(1.0, 9.0)
    curve = Depth(1, optimal_depth(0.9, 0.95), 0.9, 0.95, 0.25, 1.0)
    noisy = curve.accuracy(depths) + 0.02 * np.random.default_rng(0).standard_normal(8)
    found = fit_depth(depths, noisy, lowest=0.25)

    def error(values: np.ndarray) -> float:
        b, m = values
        return float(np.square(0.25 + 0.75 * (1 - np.exp(-b * depths)) * m**depths - noisy).sum())

    other = min(
        (minimize(error, start, method="Nelder-Mead") for start in ([1, 0.9], [0.3, 0.99])), key=lambda o: o.fun
    )
    assert error(np.array([found.gain, found.kept])) <= other.fun + 1e-9
    assert found.effective == int(depths[noisy.argmax()])


def test_numbers_that_cannot_be_fitted_are_refused() -> None:
    for depths, values in (([1, 2], [0.5]), ([1, 1], [0.5, 0.6]), ([1, 2], [0.5, math.nan])):
        with pytest.raises(ArgumentError, match="do not fit the depths"):
            fit_depth(depths, values)
    with pytest.raises(ArgumentError, match="lowest"):
        fit_depth([1, 2], [0.5, 0.6], lowest=1.0)
