"""A recording's gradients against autograd's, whole and apart by distance."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tests.insight.models import Wired, each_stack, loss_of, small_input, small_stack
from tests.variants import LENGTHS, each_cell
from torch import Tensor, nn

from unspool.cells import Cell, Elman
from unspool.insight.recording import record
from unspool.learning import TruncatedBPTT
from unspool.nn import Recurrent, Stack

CLOSE: dict[str, Any] = {"rtol": 1e-9, "atol": 1e-11}


def truth(model: nn.Module, run: Any) -> dict[str, Tensor]:
    model.zero_grad()
    run(model).backward()
    return {name: torch.zeros_like(p) if p.grad is None else p.grad.clone() for name, p in model.named_parameters()}


def run_over(x: Tensor, lengths: Any = None) -> Any:
    options = {} if lengths is None else {"lengths": lengths}
    return lambda model: loss_of(model(x, **options)[0])


@each_stack
@pytest.mark.parametrize("lengths", [None, LENGTHS], ids=["full", "ragged"])
def test_gradients_are_autograds(cell: Cell, layers: int, both: bool, lengths: Any) -> None:
    model = small_stack(cell, layers, both)
    run = run_over(small_input(cell), lengths)
    expected = truth(model, run)
    recording = record(model, run)
    found = recording.gradient()
    lags = list(recording.lags())
    for layer in recording.layers:
        for name in layer.equations.parameters:
            whole = found.parameters[layer.name][name]
            torch.testing.assert_close(whole, expected[f"{layer.name}.{name}"], **CLOSE)
            parts: Any = sum(lag.parameters[layer.name][name] for lag in lags)
            torch.testing.assert_close(parts, whole, **CLOSE)
        states: Any = sum(lag.states[layer.name] for lag in lags)
        torch.testing.assert_close(states, found.states[layer.name], **CLOSE)


@each_cell
def test_what_units_hold_is_what_passed(cell: Cell) -> None:
    recording = record(small_stack(cell, 2, True), run_over(small_input(cell), LENGTHS))
    for layer in recording.layers:
        live = layer.live
        assert live.sum() == sum(LENGTHS)
        torch.testing.assert_close(layer.advance(layer.x[live], layer.before[live]), layer.after[live], **CLOSE)
        jacobians = layer.jacobians(layer.x[live][:2], layer.before[live][:2])
        for row in range(2):
            x = layer.x[live][row : row + 1]

            def step(state: Tensor, x: Tensor = x, layer: Any = layer) -> Tensor:
                found: Tensor = layer.advance(x, state.unsqueeze(0))
                return found[0]

            slow = torch.autograd.functional.jacobian(step, layer.before[live][row])
            torch.testing.assert_close(jacobians[row], slow, **CLOSE)


def test_any_wiring() -> None:
    model, x = Wired(), torch.randn(6, 2, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(2))

    def run(model: Any) -> Tensor:
        return loss_of(model(x))

    expected = truth(model, run)
    recording = record(model, run)
    assert isinstance(model.below, nn.LSTM)
    assert model.training
    assert [layer.label for layer in recording.layers] == [
        *("below layer 1 →", "below layer 1 ←", "below layer 2 →", "below layer 2 ←", "above layer 1")
    ]
    assert [layer.level for layer in recording.layers] == [0, 0, 1, 1, 2]
    found = recording.gradient()
    lags = list(recording.lags())
    for layer in recording.layers:
        sums: Any = sum(lag.states[layer.name] for lag in lags)
        torch.testing.assert_close(sums, found.states[layer.name], **CLOSE)
    gates = torch.cat([found.parameters["below.l0"][f"U_{gate}"] for gate in "ifgo"])
    torch.testing.assert_close(gates, expected["below.weight_hh_l0"], **CLOSE)
    gates = torch.cat([found.parameters["below.l1_reverse"][f"W_{gate}"] for gate in "ifgo"])
    torch.testing.assert_close(gates, expected["below.weight_ih_l1_reverse"], **CLOSE)


@pytest.mark.parametrize("window", [1, 2, 4])
@pytest.mark.parametrize("layers", [1, 2])
def test_lags_are_what_truncation_cuts(window: int, layers: int) -> None:
    """The gradient of truncated back-propagation is the sum of the paths shorter than the window (C2)."""
    model = small_stack(Elman(), layers)
    x = small_input(Elman(), steps=9)
    weights = torch.linspace(0.5, 1.5, 9 * x.shape[1] * 4, dtype=x.dtype).reshape(9, x.shape[1], 4)
    model.zero_grad()
    for output, span in TruncatedBPTT(model, window, stride=1).over(x):
        (weights[span] * output.sin()).sum().backward()
    lags = list(record(model, run_over(x)).lags(window))
    for name, parameter in model.named_parameters():
        layer, _, own = name.rpartition(".")
        total: Any = sum(lag.parameters[layer][own] for lag in lags)
        assert parameter.grad is not None
        torch.testing.assert_close(total, parameter.grad, rtol=1e-10, atol=1e-12)


def test_first_order_responses() -> None:
    model = Stack("lstm", 3, 4, 2, bidirectional=True, residual=[False, True], dtype=torch.float64)
    x = torch.randn(7, 2, 3, dtype=torch.float64)
    recording = record(model, run_over(x))
    assert recording.entrances == [0, 1]
    change = torch.randn_like(x)
    found = recording.respond(dict.fromkeys(recording.entrances, change))
    small = 1e-5

    def moved(by: float) -> Any:
        return recording.again(lambda n, x, starts: (x + by * change if n < 2 else x, starts))

    for number, response in enumerate(found):
        ahead, back = moved(small).calls[number].output, moved(-small).calls[number].output
        torch.testing.assert_close(response, (ahead - back).detach() / (2 * small), rtol=1e-6, atol=1e-8)


def test_without_recurrence() -> None:
    layer = Recurrent(Elman(), 3, 4, dtype=torch.float64)
    model = nn.ModuleDict({"rnn": layer})
    x = torch.randn(5, 2, 3, dtype=torch.float64)

    def run(model: Any) -> Tensor:
        return loss_of(model["rnn"](x)[0])

    found = record(model, run).again(without=["rnn"])
    parameters = layer.cell_parameters()
    alone = torch.tanh(x @ parameters["W_h"].T + parameters["b_h"])
    torch.testing.assert_close(found.calls[0].output, alone)
