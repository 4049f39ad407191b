"""Gates against values counted one by one, and constructed gates against their biases."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from tests.insight.models import recorded, small_input, small_stack
from tests.variants import LENGTHS, VARIANTS, cell_of, each_cell
from torch import nn

from unspool.cells import LEM, Cell, DeepTransition, Elman, UnICORNN, maximum, minimum, sigmoid
from unspool.insight.measures.gates import QUANTILES, measure_gates
from unspool.nn import Recurrent, Stack

GATES = {
    **{key: {"i": "write", "f": "keep", "o": "gate"} for key in ("lstm", "lstm-projection")},
    "lstm-open": {"i": "write", "f": "keep"},
    **{key: {"r": "gate", "z": "keep"} for key in ("gru", "gru-reset-after")},
    "lstm-peephole": {"i": "write", "f": "keep", "o": "gate"},
    "lstm-layernorm": {"i": "write", "f": "keep", "o": "gate"},
    "janet": {"f": "keep", "i": "gate"},
    "mgu": {"f": "keep"},
    "mingru": {"z": "keep"},
    "minlstm": {"f": "keep", "i": "write"},
    "sru": {"f": "keep", "r": "gate"},
    "qrnn": {"f": "keep", "o": "gate"},
    "rhn": {"t1": "keep", "t2": "keep", "t3": "keep"},
    "fastgrnn": {"z": "keep"},
    "lem": {"a": "keep", "b": "keep"},
    "unicornn": {"pace": "gate"},
    "ltc": {"f1": "gate", "f2": "gate", "f3": "gate", "f4": "gate", "f5": "gate", "f6": "gate"},
    "cfc": {"f": "gate"},
    "rg-lru": {"r": "gate", "i": "gate"},
    "slstm": {"o": "gate", "i": "write", "f": "keep"},
    "mlstm": {"o": "gate", "i": "write", "f": "keep"},
    "gla": {"a": "keep"},
    "deltanet": {"b": "gate"},
    "rwkv7": {"a": "gate"},
    "Minimal": {"z": "gate"},
    "PeepholeLSTM": {"i": "gate", "f": "keep", "o": "gate"},
    "NormalisedLSTM": {"i": "write", "f": "keep", "o": "gate"},
    "ThreeStages": {"w": "gate"},
    "UnitByUnit": {"f": "gate"},
    "Heir": {"z": "gate", "g": "gate"},
}


@pytest.mark.parametrize("name", list(VARIANTS))
def test_the_gates_of_every_cell(name: str) -> None:
    cell = VARIANTS[name]
    found = measure_gates(recorded(small_stack(cell), small_input(cell))).gates
    assert {gate.name: gate.role for gate in found} == GATES.get(name, {})


@each_cell
@pytest.mark.parametrize(("layers", "both", "lengths"), [(1, False, None), (2, True, LENGTHS)])
def test_values_counted_one_by_one(cell: Cell, layers: int, both: bool, lengths: Any) -> None:
    recording = recorded(small_stack(cell, layers, both), small_input(cell), lengths)
    by_label = {layer.label: layer for layer in recording.layers}
    for gate in measure_gates(recording).gates:
        layer = by_label[gate.label]
        all_values = []
        for t in range(len(layer.x)):
            values = []
            for row in range(layer.x.shape[1]):
                if layer.live[t, row]:
                    states = tuple(layer.split(layer.before[t, row : row + 1]).values())
                    _, named = layer.evaluate(layer.parameters, layer.x[t, row : row + 1], states)
                    # That of a vector alone, such as the pace of UnICORNN, has no axis of rows.
                    values.append(np.atleast_2d(named[gate.name].numpy())[0].tolist())
            together = [value for row in values for value in row]
            all_values += together
            np.testing.assert_allclose(gate.mean[t], sum(together) / len(together), rtol=1e-12)
            np.testing.assert_allclose(gate.quantiles[t], np.quantile(together, QUANTILES), rtol=1e-12)
            np.testing.assert_allclose(gate.over_time[t], counted(together), atol=1e-12)
            np.testing.assert_allclose(gate.units[t], [sum(one) / len(one) for one in zip(*values, strict=True)])
        np.testing.assert_allclose(gate.histogram, counted(all_values), atol=1e-12)


def counted(values: list[float]) -> list[float]:
    """Shares in twentieths of [0, 1]."""
    bins = [0] * 20
    for value in values:
        bins[min(19, math.floor(value * 20))] += 1
    return [count / len(values) for count in bins]


def test_gates_that_biases_hold() -> None:
    model = Stack("lstm", 3, 4, 2, dtype=torch.float64)
    held = {"i": 0.12, "f": 0.93, "o": 0.51}
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            kind, _, value = name.rpartition(".")[2].partition("_")
            opening = held[value] if kind == "b" and value in held else 0.5
            parameter.fill_(math.log(opening / (1 - opening)))
    found = measure_gates(recorded(model, torch.randn(6, 2, 3, dtype=torch.float64))).gates
    assert [(gate.label, gate.name) for gate in found] == [
        (label, own) for label in ("layer 1", "layer 2") for own in "ifo"
    ]
    for gate in found:
        np.testing.assert_allclose(gate.mean, held[gate.name], rtol=1e-12)
        np.testing.assert_allclose(gate.quantiles, held[gate.name], rtol=1e-12)
        assert gate.histogram[int(held[gate.name] * 20)] == 1
        assert gate.histogram.sum() == 1
        np.testing.assert_allclose(gate.edges, np.arange(21) / 20)


@pytest.mark.parametrize(("bias", "shut", "wide"), [(0.0, 0, 0), (-9.0, 1, 0), (9.0, 0, 1)])
def test_a_gate_that_is_a_short_step_of_time_is_stuck_by_its_sigmoid(bias: float, shut: float, wide: float) -> None:
    """σ(bias) · dt is never above dt = 0.005, and no fault as long as the sigmoid can move."""
    for cell, gates in ((LEM(dt=0.005), ("b_a", "b_b")), (UnICORNN(dt=0.005), ("s",))):
        model: Any = Recurrent(cell, 3, 4, dtype=torch.float64)
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                parameter.fill_(bias if name in gates else 0.0)
        for gate in measure_gates(recorded(model, small_input(cell))).gates:
            assert (gate.stuck_shut, gate.stuck_open) == (shut, wide)
            np.testing.assert_allclose(gate.mean, 0.005 / (1 + math.exp(-bias)), rtol=1e-9)


def test_steps_at_which_no_row_lives() -> None:
    found = measure_gates(recorded(small_stack(VARIANTS["gru"]), small_input(VARIANTS["gru"]), [2, 1, 0, 0, 0]))
    for gate in found.gates:
        assert np.isnan(gate.mean).tolist() == [False, False, True, True, True]
        assert np.isnan(gate.quantiles[2:]).all()
        assert np.isnan(gate.over_time[2:]).all()
        assert np.isnan(gate.units[2:]).all()
        np.testing.assert_allclose(gate.over_time[:2].sum(1), 1)
        np.testing.assert_allclose(gate.histogram, (2 * gate.over_time[0] + gate.over_time[1]) / 3)


def test_wide_layers_show_some_units() -> None:
    model = Recurrent("gru", 3, 80, dtype=torch.float64)
    recording = recorded(model, torch.randn(1, 1, 3, dtype=torch.float64))
    gate = measure_gates(recording).gates[0]
    np.testing.assert_array_equal(gate.units, recording.layers[0].named["r"][:, 0, :64].numpy())


def test_layers_of_torch_have_gates() -> None:
    found = measure_gates(recorded(nn.LSTM(3, 4, bidirectional=True), torch.randn(5, 2, 3))).gates
    assert [(gate.label, gate.name, gate.role) for gate in found] == [
        (f"layer 1 {arrow}", *gate) for arrow in "→←" for gate in (("i", "write"), ("f", "keep"), ("o", "gate"))
    ]


def test_what_is_no_gate_and_what_a_cell_says_is_one() -> None:
    for plain in (Elman("sigmoid"), DeepTransition(2, "sigmoid")):
        assert measure_gates(recorded(small_stack(plain), small_input(plain))).gates == ()

    def step(self: Any, x: Any, h: Any) -> Any:
        k = maximum(0.0, minimum(1.0, 4 * self.linear("k", x)))
        return k * h + sigmoid(self.linear("n", x))

    cell = cell_of(step, keeps={"k": +1})
    (gate,) = measure_gates(recorded(small_stack(cell), small_input(cell))).gates
    assert (gate.name, gate.role) == ("k", "keep")
    assert gate.histogram.sum() == 1
    assert gate.histogram[0] > 0.2
    assert gate.histogram[-1] > 0.2
