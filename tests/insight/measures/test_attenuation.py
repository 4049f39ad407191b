"""Redundant attenuation of constructed gates, and against the penalty that training uses."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from tests.insight.models import Wired, loss_of, small_input, small_stack
from tests.variants import LENGTHS, VARIANTS, each_cell
from torch import Tensor, nn

from unspool.cells import LSTM, Cell
from unspool.insight.measures.attenuation import measure_attenuation
from unspool.insight.recording import Recording, record
from unspool.learning.gates import double_closed, gate_penalty, neighboring_gates
from unspool.nn import Recurrent, Stack

#: Cells with an output gate below, and with an input gate above.
BOTH_GATES = ("lstm", "lstm-projection", "PeepholeLSTM", "NormalisedLSTM", "lstm-peephole", "lstm-layernorm", "slstm")


def recorded(model: nn.Module, x: Tensor, lengths: Any = None) -> Recording:
    options = {} if lengths is None else {"lengths": lengths}
    return record(model, lambda model: loss_of(model(x, **options)[0]))


def held(o: list[float], i: list[float]) -> Any:
    """Two layers of LSTM without weights, the output gates of the lower and the input gates of the upper one so."""
    model: Any = Stack(LSTM(), 3, [len(o), len(i)], 2, dtype=torch.float64)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
        model.layers[0].b_o.copy_(torch.tensor([math.log(v / (1 - v)) for v in o]))
        model.layers[1].b_i.copy_(torch.tensor([math.log(v / (1 - v)) for v in i]))
    return model


def test_constructed_gates() -> None:
    model = held([0.2, 0.4, 0.9, 0.1], [0.3, 0.55, 0.1, 0.45])
    (pair,) = measure_attenuation(recorded(model, torch.randn(5, 2, 3, dtype=torch.float64))).pairs
    assert (pair.lower, pair.upper) == ("layer 1", "layer 2")
    assert pair.closed == 0.5
    assert pair.by_unit.tolist() == [1, 0, 0, 1]
    assert pair.lost == pytest.approx((0.5 + 0.05 + 0 + 0.45) / 4, rel=1e-6)


def test_unequal_widths_are_paired_up_to_the_smaller() -> None:
    (pair,) = measure_attenuation(recorded(held([0.2, 0.9], [0.3] * 5), torch.randn(3, 1, 3).double())).pairs
    assert pair.by_unit.tolist() == [1, 0]
    assert pair.lost == pytest.approx(0.25, rel=1e-6)


@pytest.mark.parametrize("both", [False, True])
@pytest.mark.parametrize("lengths", [None, LENGTHS])
def test_it_is_what_the_penalty_counts(both: bool, lengths: Any) -> None:
    model, x = small_stack(LSTM(), 3, both), small_input(LSTM())
    with torch.no_grad():
        sequences, _ = model(x, lengths=lengths, every_layer=True)
        gates = neighboring_gates(model, x, sequences, lengths=lengths)
    found = measure_attenuation(recorded(model, x, lengths)).pairs
    assert len(found) == len(gates) == (4 if both else 2)
    for pair, (o, i) in zip(found, gates, strict=True):
        assert pair.closed == pytest.approx(double_closed(o, i, lengths=lengths), rel=1e-12)
        assert pair.lost == pytest.approx(gate_penalty(o, i, lengths=lengths).item() / o.shape[-1], rel=1e-12)
        assert pair.by_unit.mean() == pytest.approx(pair.closed, rel=1e-12)


@each_cell
def test_every_cell_value_by_value(cell: Cell) -> None:
    recording = recorded(small_stack(cell, 2, True), small_input(cell), LENGTHS)
    found = measure_attenuation(recording).pairs
    expected = any(cell is VARIANTS[name] for name in BOTH_GATES)
    assert [(pair.lower, pair.upper) for pair in found] == (
        [(f"layer 1 {arrow}", f"layer 2 {arrow}") for arrow in "→←"] if expected else []
    )
    layers = {layer.label: layer for layer in recording.layers}
    for pair in found:
        lower, upper = layers[pair.lower], layers[pair.upper]
        shut, lost = [], []
        for t, row in lower.live.nonzero().tolist():
            o, i = lower.named["o"][t, row].tolist(), upper.named["i"][t, row].tolist()
            shut.append([a < 0.5 and b < 0.5 for a, b in zip(o, i, strict=False)])
            lost.append([max(0.0, 1 - a - b) for a, b in zip(o, i, strict=False)])
        np.testing.assert_allclose(pair.by_unit, np.mean(shut, axis=0), rtol=1e-12)
        assert pair.closed == pytest.approx(np.mean(shut), rel=1e-12)
        assert pair.lost == pytest.approx(np.mean(lost), rel=1e-12)


def test_only_layers_that_read_each_other_are_pairs() -> None:
    x = torch.randn(6, 2, 3, dtype=torch.float64)
    found = measure_attenuation(record(Wired(), lambda model: loss_of(model(x)))).pairs
    assert [(pair.lower, pair.upper) for pair in found] == [
        (f"below layer 1 {arrow}", f"below layer 2 {arrow}") for arrow in "→←"
    ]

    class SideBySide(nn.Module):
        """The second begins where the first ends, and reads what it read."""

        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.LSTM(3, 4, dtype=torch.float64), nn.LSTM(3, 4, dtype=torch.float64)

        def forward(self, x: Tensor) -> Any:
            return self.second(x, self.first(x)[1])

    recording = recorded(SideBySide(), x)
    assert [layer.level for layer in recording.layers] == [0, 1]
    assert measure_attenuation(recording).pairs == ()


def test_one_layer_has_no_pair() -> None:
    assert measure_attenuation(recorded(Recurrent("lstm", 3, 4), torch.randn(1, 1, 3))).pairs == ()
