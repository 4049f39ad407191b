"""Time constants against the document's number, against decay that is watched, and against autograd's Jacobians."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from tests.insight.models import each_wide_cell, loss_of, small_input, small_stack, stack_of
from tests.variants import LENGTHS, VARIANTS, each_cell
from torch import Tensor, nn

from unspool.cells import RHN, Cell, Leaky, Linear
from unspool.errors import ArgumentError
from unspool.insight.measures.gates import QUANTILES
from unspool.insight.measures.time_constants import measure_time_constants
from unspool.insight.recorded_layer import RecordedLayer
from unspool.insight.recording import Recording, record
from unspool.nn import Recurrent


def recorded(model: nn.Module, x: Tensor, lengths: Any = None) -> Recording:
    options = {} if lengths is None else {"lengths": lengths}
    return record(model, lambda model: loss_of(model(x, **options)[0]))


def held(cell: Any, **biases: float) -> Any:
    """A layer without weights, whose gates stand at these values."""
    layer: Any = Recurrent(cell, 3, 4, dtype=torch.float64)
    with torch.no_grad():
        for name, parameter in layer.named_parameters():
            value = biases.get(name.removeprefix("b_")) if name.startswith("b_") else None
            parameter.fill_(0 if value is None else math.log(value / (1 - value)))
    return layer


@pytest.mark.parametrize(
    ("cell", "gates"), [("lstm", {"f": 0.95}), ("gru", {"z": 0.05}), ("gru-reset-after", {"z": 0.95})]
)
def test_the_documents_number(cell: str, gates: dict[str, float]) -> None:
    """Steps of 0.02 s and a gate of 0.95: τ ≈ 0.39 s (D3)."""
    found = measure_time_constants(recorded(held(cell, **gates), torch.randn(6, 2, 3, dtype=torch.float64)), dt=0.02)
    (one,) = found.sets
    assert found.dt == 0.02
    assert (one.label, one.gate) == ("layer 1", next(iter(gates)))
    np.testing.assert_allclose(one.tau, -0.02 / math.log(0.95), rtol=1e-12)
    assert round(float(one.tau[0]), 2) == 0.39
    np.testing.assert_allclose(one.quantiles, one.tau[0])


def test_a_memory_fades_as_its_time_constant_says() -> None:
    """What is left of an LSTM's memory after t without input is e^(−t/τ)."""
    layer = held("lstm", f=0.8)
    start = torch.zeros(1, 4, dtype=torch.float64), torch.ones(1, 4, dtype=torch.float64)
    x = torch.zeros(9, 1, 3, dtype=torch.float64)
    recording = record(layer, lambda layer: loss_of(layer(x, start)[0]))
    (one,) = measure_time_constants(recording, dt=0.5).sets
    memory = recording.layers[0].named["c"][:, 0].numpy()
    np.testing.assert_allclose(memory, np.exp(-0.5 * np.arange(1, 10)[:, None] / one.tau), rtol=1e-12)


def test_a_memory_fades_through_all_gates_of_a_step() -> None:
    """A unit of an RHN passes three gates per step: what is left after t steps is (1 − t1)^t (1 − t2)^t (1 − t3)^t."""
    layer = held(RHN(depth=3), t1=0.1, t2=0.3, t3=0.2)
    start = torch.ones(1, 4, dtype=torch.float64)
    recording = record(layer, lambda layer: loss_of(layer(torch.zeros(9, 1, 3, dtype=torch.float64), start)[0]))
    (one,) = measure_time_constants(recording, dt=0.5).sets
    assert one.gate == "t1 · t2 · t3"
    memory = recording.layers[0].output[:, 0].numpy()
    np.testing.assert_allclose(memory, np.exp(-0.5 * np.arange(1, 10)[:, None] / one.tau), rtol=1e-12)


def test_a_leaky_cell_has_its_own_rate() -> None:
    """h + dt(−α h): the factor of a step is 1 − α dt, and τ goes to 1/α as dt goes to 0."""
    found = measure_time_constants(recorded(held(Leaky(dt=0.001, alpha=2.5)), torch.randn(4, 1, 3).double()), dt=0.001)
    (one,) = found.sets
    assert one.gate == "∂h/∂h"
    np.testing.assert_allclose(one.tau, -0.001 / math.log(1 - 0.0025), rtol=1e-9)
    np.testing.assert_allclose(one.tau, 1 / 2.5, rtol=2e-3)


def test_units_that_do_not_fade() -> None:
    layer: Any = Recurrent(Linear(), 3, 5, dtype=torch.float64)
    diagonal = torch.tensor([0.5, 1.0, -0.5, 1.5, 0.0], dtype=torch.float64)
    with torch.no_grad():
        layer.U_h.copy_(torch.diag(diagonal))
    (one,) = measure_time_constants(recorded(layer, torch.randn(4, 2, 3, dtype=torch.float64))).sets
    np.testing.assert_allclose(one.tau, [1 / math.log(2), np.inf, np.nan, np.nan, np.nan], rtol=1e-12)
    np.testing.assert_allclose(one.quantiles, np.array([1 / math.log(2)] * 3 + [np.inf] * 2))
    with torch.no_grad():
        layer.U_h.neg_()
        layer.U_h[1, 1] = layer.U_h[2, 2] = -1
    assert measure_time_constants(recorded(layer, torch.randn(4, 2, 3, dtype=torch.float64))).sets == ()


def test_gates_at_their_ends() -> None:
    """A gate that is all open never fades, one that is shut forgets at once."""
    layer = held("lstm")
    with torch.no_grad():
        layer.b_f.copy_(torch.tensor([800.0, -800.0, 0.0, 0.0]))
    (one,) = measure_time_constants(recorded(layer, torch.randn(4, 2, 3, dtype=torch.float64))).sets
    np.testing.assert_allclose(one.tau, [np.inf, 0, 1 / math.log(2), 1 / math.log(2)])


@each_cell
@pytest.mark.parametrize(("layers", "both", "lengths"), [(1, False, None), (2, True, LENGTHS)])
def test_every_cell_step_by_step(cell: Cell, layers: int, both: bool, lengths: Any) -> None:
    check_steps(recorded(small_stack(cell, layers, both), small_input(cell), lengths))


@each_wide_cell
def test_a_matrix_of_state_at_some_steps(cell: Cell) -> None:
    """Gates are known at all 25 steps; of Jacobians of 1,000 states there are 16."""
    recording = recorded(stack_of(cell), small_input(cell))
    check_steps(recording, None if cell.keeps else 16)


def check_steps(recording: Recording, most: int | None = None) -> None:
    """Each τ is by the mean over all steps, or over so many that are evenly spaced."""
    found = {(one.label, one.gate): one for one in measure_time_constants(recording, dt=0.3).sets}
    expected = {
        (layer.label, gate): tau
        for layer in recording.layers
        for gate, tau in slowly(layer, 0.3, most).items()
        if not all(map(math.isnan, tau))
    }
    assert found.keys() == expected.keys()
    for key, tau in expected.items():
        np.testing.assert_allclose(found[key].tau, tau, rtol=1e-9)
        finite = np.sort(np.array([value for value in tau if not math.isnan(value)]))
        places = [round(q * (len(finite) - 1)) for q in QUANTILES]
        np.testing.assert_allclose(found[key].quantiles, finite[places], rtol=1e-9)


#: What is left of a unit after a step, by the gates' names, of cells with gates that keep: as their papers have it.
LEFT: dict[str, Any] = {
    **{name: {"z": lambda v: 1 - v["z"]} for name in ("GRU", "MinGRU")},
    "ResetAfterGRU": {"z": lambda v: v["z"]},
    "MGU": {"f": lambda v: 1 - v["f"]},
    "FastGRNN": {"z": lambda v: v["z"]},
    "LEM": {"a": lambda v: 1 - v["a"], "b": lambda v: 1 - v["b"]},
    "RHN": {"t1 · t2 · t3": lambda v: (1 - v["t1"]) * (1 - v["t2"]) * (1 - v["t3"])},
    "GatedLinearAttention": {"a": lambda v: v["a"]},
    **{
        name: {"f": lambda v: v["f"]}
        for name in (
            *("LSTM", "OpenLSTM", "PeepholeLSTM", "LayerNormLSTM", "NormalisedLSTM", "JANET", "MinLSTM"),
            *("SRU", "QRNN", "SLSTM", "MLSTM"),
        )
    },
}


def test_every_cell_that_keeps_by_a_gate_is_written_down() -> None:
    assert {type(cell).__name__ for cell in VARIANTS.values() if cell.keeps} == set(LEFT)


def slowly(layer: RecordedLayer, dt: float, most: int | None = None) -> dict[str, list[float]]:
    """τ by gate or state: the mean over every live step on its own, or over so many of them."""
    left = LEFT.get(type(layer.cell).__name__)
    sums: dict[str, Tensor] = {}
    places = layer.live.nonzero().tolist()
    if most is not None:
        places = [places[int(place)] for place in np.linspace(0, len(places) - 1, most)]
    for t, row in places:
        x, before = layer.x[t, row : row + 1], layer.before[t, row]
        if left:
            _, named = layer.evaluate(layer.parameters, x, tuple(layer.split(before.unsqueeze(0)).values()))
            now = {gate: kept(named)[0] for gate, kept in left.items()}
        else:

            def step(state: Tensor, x: Tensor = x) -> Tensor:
                return layer.advance(x, state.unsqueeze(0))[0]

            whole = torch.autograd.functional.jacobian(step, before)
            now = {f"∂{state}/∂{state}": part for state, part in layer.split(whole.diagonal()).items()}
        for gate, value in now.items():
            sums[gate] = sums.get(gate, torch.zeros_like(value)) + value
    means = {gate: (total / len(places)).tolist() for gate, total in sums.items()}
    return {gate: [fading(f, dt) for f in mean] for gate, mean in means.items()}


def fading(f: float, dt: float) -> float:
    return math.inf if f == 1 else -dt / math.log(f) if 0 < f < 1 else math.nan


def test_wide_layers_are_sampled(monkeypatch: pytest.MonkeyPatch) -> None:
    """A mean over a part of the steps: exact where every step has the same Jacobian."""
    cell = VARIANTS["linear"]
    recording = recorded(small_stack(cell), small_input(cell, steps=40))
    (whole,) = measure_time_constants(recording).sets
    asked: list[int] = []
    jacobians = RecordedLayer.jacobians

    def counting(self: RecordedLayer, x: Tensor, states: Tensor) -> Tensor:
        asked.append(len(x))
        return jacobians(self, x, states)

    monkeypatch.setattr(RecordedLayer, "jacobians", counting)
    monkeypatch.setattr("unspool.insight.measures.time_constants.JACOBIAN_NUMBERS", 400)
    (part,) = measure_time_constants(recording).sets
    assert asked == [25]
    np.testing.assert_allclose(part.tau, whole.tau, rtol=1e-12)


@pytest.mark.parametrize("dt", [0, -1.0, math.inf, math.nan, True, "1"])
def test_a_time_that_is_none(dt: Any) -> None:
    with pytest.raises(ArgumentError, match="`dt`"):
        measure_time_constants(recorded(held("lstm"), torch.zeros(2, 1, 3, dtype=torch.float64)), dt=dt)
