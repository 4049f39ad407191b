"""Ablation: each unit zeroed by hand, in every cell, with stacks, both directions, lengths and several calls."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tests.insight.models import Wired, each_stack, loss_of, recorded, small_input, small_stack
from tests.variants import LENGTHS
from torch import Tensor, nn

from unspool.cells import CATALOGUE, Cell
from unspool.errors import ArgumentError
from unspool.insight.measures.ablation import measure_ablation, unit_states
from unspool.insight.recording import record


class Lstm(nn.Module):
    """Two LSTM layers and a head, written out, of which one unit can be zeroed at every step."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.rnn = nn.LSTM(3, 4, num_layers=2, dtype=torch.float64)
        self.head = nn.Linear(4, 2, dtype=torch.float64)

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = self.head(self.rnn(x)[0]).square().mean()
        return found

    def by_hand(self, x: Tensor, layer: int, unit: int) -> float:
        for level in range(2):
            w, u, b, d = (
                getattr(self.rnn, f"{name}_l{level}") for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
            )
            h = c = torch.zeros(x.shape[1], 4, dtype=torch.float64)
            mask = torch.ones(4, dtype=torch.float64)
            if level == layer:
                mask[unit] = 0
            outputs = []
            for step in x:
                i, f, g, o = (step @ w.T + h @ u.T + b + d).chunk(4, -1)
                c = (f.sigmoid() * c + i.sigmoid() * g.tanh()) * mask
                h = o.sigmoid() * c.tanh() * mask
                outputs.append(h)
            x = torch.stack(outputs)
        return float(self.head(x).square().mean().detach())


def test_each_unit_of_an_lstm_zeroed_by_hand() -> None:
    model, x = Lstm(), torch.randn(7, 2, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    found = measure_ablation(record(model, lambda model: model(x)))
    for layer, one in enumerate(found.layers):
        expected = [model.by_hand(x, layer, unit) - found.loss for unit in range(4)]
        np.testing.assert_allclose(one.lost, expected, rtol=1e-9, atol=1e-13)
        assert sorted(one.order) == [0, 1, 2, 3]
    assert (found.ablated, found.units) == (8, 8)


@each_stack
def test_a_unit_of_any_cell_is_held_at_every_step(cell: Cell, layers: int, both: bool) -> None:
    """Beside one sequence and step at a time."""
    stack, x = small_stack(cell, layers, both), small_input(cell)
    recording = recorded(stack, x, LENGTHS)
    found = measure_ablation(recording)
    for layer, one in zip(recording.layers, found.layers, strict=True):
        held = unit_states(layer, 0)
        again = recording.again()
        (call,) = [call for call in again.calls if call.layer.name == layer.name]
        state = torch.cat(call.starts, -1) * ~held
        output = torch.zeros_like(call.output)
        times = range(len(x))
        for t in reversed(times) if layer.reverse else times:
            for row, end in enumerate(LENGTHS):
                if t < end:
                    state[row] = layer.advance(call.x[t, row : row + 1].detach(), state[row : row + 1])[0] * ~held
                    output[t, row] = state[row, : output.shape[-1]]
        if layers == 1 and not both:
            assert one.lost[0] == pytest.approx(float(loss_of(output)) - found.loss, rel=1e-9, abs=1e-12)
        assert np.isfinite(one.lost).all()


def test_units_held_at_their_mean() -> None:
    torch.manual_seed(0)
    model, x = nn.RNN(3, 4, dtype=torch.float64), torch.randn(6, 2, 3, dtype=torch.float64)
    found = measure_ablation(record(model, lambda model: loss_of(model(x)[0])), value="mean")
    mean = model(x)[0].detach().mean((0, 1))
    w, u, b, d = (value.detach() for value in model.parameters())
    for unit in range(4):
        h, outputs = torch.zeros(2, 4, dtype=torch.float64), []
        h[:, unit] = mean[unit]
        for step in x:
            h = (step @ w.T + b + h @ u.T + d).tanh()
            h = torch.where(torch.arange(4) == unit, mean, h)
            outputs.append(h)
        lost = float(loss_of(torch.stack(outputs)).detach()) - found.loss
        assert found.layers[0].lost[unit] == pytest.approx(lost, rel=1e-9)


def test_any_wiring() -> None:
    x = torch.randn(6, 2, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    found = measure_ablation(record(Wired(), lambda model: loss_of(model(x))))
    assert [len(one.lost) for one in found.layers] == [4] * 5
    assert all(np.abs(one.lost).max() > 0 for one in found.layers)


class InParts(nn.Module):
    """A layer that is called once per step."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.rnn = nn.GRU(3, 4, dtype=torch.float64)
        self.parts = 1

    def forward(self, x: Tensor) -> Tensor:
        state, outputs = None, []
        for part in x.chunk(self.parts):
            output, state = self.rnn(part, state)
            outputs.append(output)
        return loss_of(torch.cat(outputs))


def test_a_layer_that_is_called_several_times() -> None:
    model, x = InParts(), torch.randn(6, 2, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    whole = measure_ablation(record(model, lambda model: model(x)))
    model.parts = 3
    parts = measure_ablation(record(model, lambda model: model(x)))
    np.testing.assert_allclose(parts.layers[0].lost, whole.layers[0].lost, rtol=1e-9)


def test_without_time_the_first_are_left_unknown() -> None:
    cell = CATALOGUE["gru"]()
    recording = recorded(small_stack(cell), small_input(cell))
    found = measure_ablation(recording, seconds=0)
    assert found.ablated == 0
    assert np.isnan(found.layers[0].lost).all()


def test_the_model_is_as_before() -> None:
    model, x = Lstm(), torch.randn(7, 2, 3, dtype=torch.float64)
    before = model(x)
    measure_ablation(record(model, lambda model: model(x)))
    assert model.training
    torch.testing.assert_close(model(x), before)


def test_bad_input_is_refused() -> None:
    cell = CATALOGUE["gru"]()
    recording = recorded(small_stack(cell), small_input(cell))
    with pytest.raises(ArgumentError, match="Choose from zero, mean"):
        measure_ablation(recording, value="one")
    with pytest.raises(ArgumentError, match="seconds"):
        measure_ablation(recording, seconds=-1)
