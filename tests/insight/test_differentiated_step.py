"""Steps that mix units, made linear: against autograd's Jacobian, and its gradients of a whole layer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
import torch
from tests.insight.models import loss_of
from torch import Tensor

from unspool.cells import (
    MLSTM,
    RWKV7,
    Cell,
    DeltaNet,
    Elman,
    GatedLinearAttention,
    Symbol,
    cumsum,
    max_units,
    mean_units,
    sigmoid,
    softmax,
    sum_units,
    tanh,
)
from unspool.insight.differentiated_step import DifferentiatedLayer
from unspool.insight.linear_step import LinearStep
from unspool.insight.measures.shares import measure_shares
from unspool.insight.recorded_layer import RecordedLayer
from unspool.insight.recording import Recording, record
from unspool.nn import Recurrent

CLOSE: dict[str, Any] = {"rtol": 1e-9, "atol": 1e-11}


class Mixed(Cell):
    """Ways to mix units that the published cells lack."""

    @property
    def sizes(self) -> Mapping[str, int | str]:
        return {"heads": 2, "head": "hidden/heads"}

    def step(self, x: Symbol, h: Symbol) -> Symbol:
        a = softmax(self.linear("a", x, h))
        b = cumsum(tanh(self.linear("b", x))) * mean_units(h) + max_units(a) * h
        turned = self.reshape(self.block_linear("d", self.reshape(h, "heads*head")), "hidden")
        return a * b + tanh(turned) / (2 + sum_units(a * a))


class Scaled(Cell):
    """One gate for all units: no operation of it says that it mixes them."""

    def step(self, x: Symbol, h: Symbol) -> Symbol:
        g = sigmoid(self.linear("g", x, h, width="one"))
        return g * h + (1 - g) * tanh(self.linear("n", x, h)) * self.vector("v", 0.7)


class TwoInputs(Cell):
    """Reads the time since the last step besides x."""

    inputs = {"gap": "one"}

    def step(self, x: Symbol, h: Symbol, gap: Symbol) -> Symbol:
        return tanh(self.linear("h", x, h) + gap * h)


CELLS = {
    "gla": GatedLinearAttention(2, 3),
    "deltanet": DeltaNet(2, 3),
    "rwkv7": RWKV7(2, 3),
    "mlstm": MLSTM(2, 3),
    "mixed": Mixed(),
    "scaled": Scaled(),
}
each = pytest.mark.parametrize("cell", list(CELLS.values()), ids=list(CELLS))


def recorded(cell: Cell) -> tuple[Recurrent, Recording]:
    torch.manual_seed(3)
    layer = Recurrent(cell, 3, 4, dtype=torch.float64)
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    x = torch.randn(5, 3, 3, dtype=torch.float64)
    return layer, record(layer, lambda model: loss_of(model(x, lengths=(5, 2, 4))[0]))


def places(cell: Cell) -> tuple[RecordedLayer, LinearStep, Tensor, Tensor]:
    """Two steps of three sequences in a row, the states not only those that were reached."""
    (layer,) = recorded(cell)[1].layers
    x, before = layer.x[:2], layer.before[:2].clone() + 0.1
    return layer, layer.linear.at(x, before), x, before


def slow(layer: RecordedLayer, x: Tensor, states: Tensor) -> tuple[Tensor, Tensor]:
    """Both Jacobians of one step."""
    of_x, of_states = torch.autograd.functional.jacobian(
        lambda x, states: layer.advance(x.unsqueeze(0), states.unsqueeze(0))[0], (x, states)
    )
    return of_x, of_states


@each
def test_changes_and_gradients_are_products_with_the_jacobian(cell: Cell) -> None:
    layer, step, x, before = places(cell)
    assert isinstance(layer.linear, DifferentiatedLayer)
    change, x_change = torch.randn_like(before), torch.randn_like(x)
    with torch.no_grad():  # as most measures are
        pushed, pulled = step.push(change, x_change), step.pull(change)
    alone, by_input = step.push(change), step.push(None, x_change)
    jacobians = layer.jacobians(x.flatten(0, 1), before.flatten(0, 1)).unflatten(0, (2, 3))
    assert pulled.x is not None
    for t in range(2):
        for row in range(3):
            of_x, of_states = slow(layer, x[t, row], before[t, row])
            at = (t, row)
            torch.testing.assert_close(alone[at], of_states @ change[at], **CLOSE)
            torch.testing.assert_close(by_input[at], of_x @ x_change[at], **CLOSE)
            torch.testing.assert_close(pushed[at], of_states @ change[at] + of_x @ x_change[at], **CLOSE)
            torch.testing.assert_close(pulled.states[at], change[at] @ of_states, **CLOSE)
            torch.testing.assert_close(pulled.x[at], change[at] @ of_x, **CLOSE)
            torch.testing.assert_close(jacobians[at], of_states, **CLOSE)


@each
def test_axes_are_as_for_other_cells(cell: Cell) -> None:
    layer, step, x, before = places(cell)
    several = torch.randn(2, *before.shape, dtype=before.dtype)
    torch.testing.assert_close(step.push(several)[1], step.push(several[1]), **CLOSE)
    torch.testing.assert_close(step.pull(several).states[1], step.pull(several[1]).states, **CLOSE)
    last = several.permute(1, 2, 0, 3)
    torch.testing.assert_close(step.with_axis().push(last)[:, :, 1], step.push(several[1]), **CLOSE)
    for t, one in enumerate(step.unbind()):
        torch.testing.assert_close(one.push(several[0, t]), step.push(several[0])[t], **CLOSE)
    order = torch.tensor([1, 0, 1])
    torch.testing.assert_close(step.pick(order).push(several[0][order]), step.push(several[0])[order], **CLOSE)
    backward = layer.linear.iterate(x, before, [1, 0])
    for t, one in zip((1, 0), backward, strict=True):
        torch.testing.assert_close(one.push(several[0, t]), step.push(several[0])[t], **CLOSE)
    assert (step.dtype, step.input_size) == (torch.float64, 3)


@each
def test_gradients_of_a_layer_are_autograds(cell: Cell) -> None:
    model, recording = recorded(cell)
    model.zero_grad()
    x = recording.layers[0].x
    loss_of(model(x, lengths=(5, 2, 4))[0]).backward()
    found = recording.gradient().parameters[recording.layers[0].name]
    lags = list(recording.lags())
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None
        torch.testing.assert_close(found[name], parameter.grad, **CLOSE)
        parts: Any = sum(lag.parameters[recording.layers[0].name][name] for lag in lags)
        torch.testing.assert_close(parts, parameter.grad, **CLOSE)
    assert abs(measure_shares(recording).shares.sum() - 1) < 1e-9


def test_further_inputs_are_part_of_x() -> None:
    torch.manual_seed(0)
    layer = Recurrent(TwoInputs(), 3, 4, dtype=torch.float64)
    x, gap = torch.randn(5, 2, 3, dtype=torch.float64), torch.rand(5, 2, dtype=torch.float64)
    (own,) = record(layer, lambda model: loss_of(model(x, gap=gap)[0])).layers
    change = torch.randn_like(own.x[2])
    pushed = own.linear.at(own.x[2], own.before[2]).push(None, change)
    for row in range(2):
        of_x, _ = slow(own, own.x[2, row], own.before[2, row])
        torch.testing.assert_close(pushed[row], of_x @ change[row], **CLOSE)


def test_many_places_are_done_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    _, step, _, before = places(CELLS["gla"])
    change = torch.randn_like(before)
    whole = step.push(change), step.pull(change).states, step.pull(change).maps[0]
    monkeypatch.setattr("unspool.insight.differentiated_step.TOGETHER", 2 * before.shape[-1])
    parts = step.push(change), step.pull(change).states, step.pull(change).maps[0]
    for one, other in zip(whole, parts, strict=True):
        assert one is not None
        assert other is not None
        torch.testing.assert_close(one, other, **CLOSE)


def test_no_places_give_nothing() -> None:
    layer, _, x, before = places(CELLS["mlstm"])
    step = layer.linear.at(x[:0, 0], before[:0, 0])
    assert step.push(before[:0, 0]).shape == before[:0, 0].shape
    assert step.pull(before[:0, 0]).states.shape == before[:0, 0].shape


def test_other_cells_keep_the_faster_way() -> None:
    (layer,) = recorded(Elman())[1].layers
    assert not isinstance(layer.linear, DifferentiatedLayer)
