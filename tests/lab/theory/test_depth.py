"""Depth: the effective depth of networks, and the curve of the trade-off."""

from __future__ import annotations

import math

import pytest
from tests.insight.models import loss_of, small_input, small_stack
from tests.variants import each_cell

from unspool.cells import Cell, DeepTransition, Elman
from unspool.errors import ArgumentError
from unspool.insight.measures.depth import optimal_depth
from unspool.insight.recording import Recording, record
from unspool.lab.theory.depth import Depth, effective_depth, measure_depth


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
    each = cell.depth if isinstance(cell, DeepTransition) else 1
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
