"""Saturated tanh and dead relu: constructed ones, and every value of every cell looked at on its own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from tests.insight.models import recorded, small_input, small_stack
from tests.variants import LENGTHS, VARIANTS, each_cell

from unspool.cells import Cell, Elman
from unspool.insight.measures.activation import measure_activations
from unspool.nn import Recurrent

NAMES = {
    "elman": ["h"],
    "linear": [],
    "elman-sigmoid": [],
    "jordan": ["h"],
    "jordan-output": ["h", "y"],
    "lstm": ["g", "tanh(c)"],
    "lstm-open": ["g", "h"],
    "gru": ["n"],
    "deep-transition-3": ["v1", "v2", "h"],
    "residual-relu": ["f"],
    "skip": ["h"],
    "leaky": ["tanh(W_h + U_h)"],
    "PeepholeLSTM": ["tanh(W_g + U_g)", "tanh(c)"],
    "NormalisedLSTM": ["g", "tanh(…)"],
    "ThreeStages": ["u", "v"],
    "ThreeStates": ["a", "m"],
    "Toolbox": ["relu(…)", "tanh(…)"],
}


@pytest.mark.parametrize("name", list(NAMES))
def test_what_every_cell_has(name: str) -> None:
    cell = VARIANTS[name]
    found = measure_activations(recorded(small_stack(cell), small_input(cell))).values
    assert sorted(one.name for one in found) == sorted(NAMES[name])


def biased(activation: str, biases: list[float]) -> Any:
    """A layer without weights, whose units stand at φ(bias)."""
    layer: Any = Recurrent(Elman(activation), 3, len(biases), dtype=torch.float64)
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.zero_()
        layer.b_h.copy_(torch.tensor(biases))
    return layer


def test_saturated_units() -> None:
    """tanh(2) = 0.964 is not yet saturated, tanh(2.1) = 0.9705 is (D10)."""
    layer = biased("tanh", [5.0, -5.0, 2.1, -2.0, 0.3])
    (one,) = measure_activations(recorded(layer, torch.randn(4, 2, 3, dtype=torch.float64))).values
    assert (one.label, one.name, one.function) == ("layer 1", "h", "tanh")
    assert one.saturated == 0.6
    assert one.by_unit.tolist() == [1, 1, 1, 0, 0]
    assert one.dead == 0


def test_dead_units() -> None:
    """A unit is dead if it is 0 at every step, not if it is at some (D10)."""
    layer = biased("relu", [-1.0, -2.0, 3.0, 0.0])
    with torch.no_grad():
        layer.W_h[3, 0] = 1.0
    x = torch.ones(4, 1, 3, dtype=torch.float64)
    x[:3] = -1
    (one,) = measure_activations(recorded(layer, x)).values
    assert one.function == "relu"
    assert one.dead == 0.5
    assert one.saturated == 0
    assert one.by_unit.tolist() == [1, 1, 0, 0.75]


def test_what_lies_beyond_a_rows_end_does_not_count() -> None:
    """The zeros with which ended rows are filled are no dead units."""
    (one,) = measure_activations(recorded(biased("relu", [1.0]), torch.randn(5, 3, 3).double(), [2, 0, 1])).values
    assert one.dead == 0
    assert one.by_unit.tolist() == [0]


@each_cell
@pytest.mark.parametrize(("layers", "both", "lengths"), [(1, False, None), (2, True, LENGTHS)])
def test_every_value_on_its_own(cell: Cell, layers: int, both: bool, lengths: Any) -> None:
    """Every tanh and relu of the equations is called with its argument, one row at a time."""
    model = small_stack(cell, layers, both)
    recording = recorded(model, 4 * small_input(cell), lengths)
    found = measure_activations(recording).values
    for layer in recording.layers:
        mine = [one for one in found if one.label == layer.label]
        nodes = [node for node in layer.equations.nodes if node.operation in ("tanh", "relu")]
        assert [one.function for one in mine] == [node.operation for node in nodes]
        for one, node in zip(mine, nodes, strict=True):
            values = [evaluated(node, layer, t, row) for t, row in layer.live.nonzero().tolist()]
            if one.function == "tanh":
                flat = [[abs(value) > 0.97 for value in place] for place in values]
                assert one.saturated == pytest.approx(np.mean(flat), rel=1e-12)
            else:
                flat = [[value == 0 for value in place] for place in values]
                assert one.dead == pytest.approx(np.mean([all(layer) for layer in zip(*flat, strict=True)]), rel=1e-12)
            np.testing.assert_allclose(one.by_unit, np.mean(flat, axis=0), rtol=1e-12)


def evaluated(node: Any, layer: Any, t: int, row: int) -> list[float]:
    """The value of one node of the equations at one step of one row, by recursion in NumPy."""
    states = {name: part[t, row].numpy() for name, part in layer.split(layer.before).items()}
    parameters = {name: value.numpy() for name, value in layer.parameters.items()}

    def value(node: Any) -> Any:
        inputs = [value(one) for one in node.inputs]
        match node.operation:
            case "input":
                return layer.x[t, row].numpy()
            case "state":
                return states[node.detail]
            case "vector":
                return parameters[node.detail]
            case "constant":
                return node.detail
            case "linear":
                total = sum(parameters[name] @ one for name, one in zip(node.detail.matrices, inputs, strict=True))
                return total if node.detail.bias is None else total + parameters[node.detail.bias]
            case "sigmoid":
                return 1 / (1 + np.exp(-inputs[0]))
            case "matvec":
                return np.array([row @ inputs[1] for row in inputs[0].reshape(-1, len(inputs[1]))])
            case "vecmat":
                return sum(own * row for own, row in zip(inputs[0], inputs[1].reshape(len(inputs[0]), -1), strict=True))
            case "relu":
                return np.maximum(inputs[0], 0)
            case "normalise":
                return (inputs[0] - inputs[0].mean()) / np.sqrt(inputs[0].var() + node.detail)
            case _:
                return getattr(np, node.operation)(*inputs)

    found: list[float] = np.asarray(value(node)).tolist()
    return found
