"""Stacks on NumPy arrays give what the torch layers give: every cell, both directions, all connections, torch.nn's."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from tests.runtime.test_play import TOLERANCE, assert_same, difference
from tests.variants import LENGTHS, STEPS, VARIANTS, each_cell
from torch import nn as torch_nn

from unspool import engine as kernels
from unspool import nn
from unspool.cells import Cell
from unspool.engine.reference import run as run_reference
from unspool.errors import ArgumentError
from unspool.models.describe import describe_layer
from unspool.nn.leaves import leaves
from unspool.runtime.read import read_stack
from unspool.runtime.stack import StackPlayer

INPUT, HIDDEN = 4, 4


def player_of(module: torch_nn.Module) -> StackPlayer:
    """The player of a layer, by way of JSON."""
    tensors = {name: tensor.numpy() for name, tensor in module.state_dict().items()}
    return StackPlayer(read_stack(json.loads(json.dumps(describe_layer(module))), tensors))


def random_weights(module: torch_nn.Module) -> torch_nn.Module:
    """Every parameter away from its first value, learned initial states too."""
    torch.manual_seed(1)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    return module.eval()


LAYERS: dict[str, Callable[[], torch_nn.Module]] = {
    "learned initial states": lambda: nn.Recurrent("lstm", INPUT, HIDDEN, learn_initial=True),
    "reversed": lambda: nn.Recurrent("gru", INPUT, HIDDEN, reverse=True, bias=False),
    "bidirectional": lambda: nn.Bidirectional("lstm", INPUT, HIDDEN, learn_initial=True),
    "skip": lambda: nn.Stack("gru", INPUT, [3, 4, 5], skip=True, bidirectional=[True, False, True]),
    "residual": lambda: nn.Stack("lstm", INPUT, HIDDEN, 3, residual=True),
    "zoneout": lambda: nn.Stack("lstm", INPUT, [3, 2], zoneout=[0.4, 0.0], learn_initial=True),
    "delay": lambda: nn.TimeDelay(nn.Stack("gru", INPUT, HIDDEN, 2, residual=True), 2),
    "delays": lambda: nn.TimeDelay(nn.TimeDelay(nn.Bidirectional("gru", INPUT, HIDDEN), 3), 4),
}
TORCH: dict[str, Callable[[], torch_nn.Module]] = {
    "LSTM": lambda: nn.LSTM(INPUT, HIDDEN, 2, bidirectional=True),
    "LSTM projected": lambda: nn.LSTM(INPUT, HIDDEN, 2, bidirectional=True, proj_size=2),
    "GRU": lambda: nn.GRU(INPUT, HIDDEN, 2),
    "GRU without biases": lambda: nn.GRU(INPUT, HIDDEN, bias=False, bidirectional=True),
    "GRU reset before": lambda: nn.GRU(INPUT, HIDDEN, 2, reset="before"),
    "RNN": lambda: nn.RNN(INPUT, HIDDEN, 2, nonlinearity="relu"),
}


def call(module: Any, x: torch.Tensor, lengths: list[int] | None) -> tuple[Any, list[Any]]:
    """Output and final states by the eager loop."""
    output, state = module(x, lengths=lengths)
    return output.detach(), [leaf.detach() for leaf in leaves(state)]


def arrays(states: Any) -> list[Any]:
    """All arrays of nested states, in order."""
    return [states] if isinstance(states, np.ndarray) else [leaf for part in states for leaf in arrays(part)]


@pytest.mark.parametrize("ragged", [False, True])
@pytest.mark.parametrize("kind", LAYERS)
def test_layers_of_ours(kind: str, ragged: bool, engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module = random_weights(LAYERS[kind]())
    player = player_of(module)
    x = torch.randn(STEPS, len(LENGTHS), INPUT)
    monkeypatch.setenv("UNSPOOL_ENGINE", "off")
    expected, states = call(module, x, [*LENGTHS] if ragged else None)
    monkeypatch.setenv("UNSPOOL_ENGINE", "on" if engine == "kernel" else "off")
    found, final = player.run(x.numpy(), lengths=np.array(LENGTHS) if ragged else None)
    assert_same(found, expected)
    assert_same(arrays(final), states)


@pytest.mark.filterwarnings("ignore:LSTM with projections is not supported with oneDNN")
@pytest.mark.parametrize("kind", TORCH)
@pytest.mark.usefixtures("engine")
def test_layers_of_torch(kind: str) -> None:
    ours = random_weights(TORCH[kind]())
    x = torch.randn(STEPS, len(LENGTHS), INPUT)
    expected, _ = call(ours, x, [*LENGTHS])
    assert_same(player_of(ours).run(x.numpy(), lengths=np.array(LENGTHS))[0], expected)
    if "before" in kind:
        return
    nn_layer: Any = ours
    theirs = nn_layer.torch_class(INPUT, HIDDEN, **_options(nn_layer))
    theirs.load_state_dict(ours.state_dict())
    assert_same(player_of(theirs).run(x.numpy())[0], theirs(x)[0].detach())


def _options(layer: Any) -> dict[str, Any]:
    options = {"num_layers": layer.num_layers, "bias": layer.bias, "bidirectional": layer.bidirectional}
    if isinstance(layer, torch_nn.RNN):
        options["nonlinearity"] = layer.nonlinearity
    return options | ({"proj_size": layer.proj_size} if layer.proj_size else {})


@each_cell
def test_every_cell_against_the_reference_in_float64(cell: Cell, engine: str) -> None:
    layer = random_weights(nn.Recurrent(cell, INPUT, HIDDEN))
    player = player_of(layer)
    assert (player.layers[0].directions[0].kernel is None) == (engine == "eager" or not kernels.enabled())
    x = np.random.default_rng(0).normal(size=(STEPS, len(LENGTHS), INPUT)).astype(np.float32)
    parameters = {name: tensor.detach().numpy() for name, tensor in layer.named_parameters()}
    expected, states, _ = run_reference(cell, parameters, x, lengths=[*LENGTHS])
    found, final = player.run(x, lengths=np.array(LENGTHS))
    assert found.dtype == np.float32
    assert difference(found, expected) <= TOLERANCE
    for one, other in zip(arrays(final), states, strict=True):
        assert one.dtype == np.float32
        assert difference(one, other) <= TOLERANCE


@pytest.mark.usefixtures("engine")
def test_float64_stays_float64() -> None:
    layer = random_weights(nn.Stack("lstm", INPUT, HIDDEN, 2).double())
    x = torch.randn(STEPS, 3, INPUT, dtype=torch.float64)
    found, _ = player_of(layer).run(x.numpy())
    assert found.dtype == np.float64
    assert difference(found, layer(x)[0].detach()) <= 1e-14


@pytest.mark.usefixtures("engine")
def test_a_sequence_in_parts_is_the_whole() -> None:
    player = player_of(random_weights(nn.Stack(["lstm", "gru"], INPUT, [4, 3], learn_initial=True)))
    x = np.random.default_rng(0).normal(size=(7, 2, INPUT)).astype(np.float32)
    whole, _ = player.run(x)
    first, states = player.run(x[:3])
    rest, _ = player.run(x[3:], states)
    assert difference(np.concatenate((first, rest)), whole) <= TOLERANCE


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (0, 0)])
@pytest.mark.usefixtures("engine")
def test_nothing_gives_nothing(shape: tuple[int, int]) -> None:
    player = player_of(nn.TimeDelay(nn.Stack("gru", INPUT, 5), 2))
    output, states = player.run(np.zeros((*shape, INPUT), np.float32), lengths=np.zeros(shape[1], int))
    assert output.shape == (*shape, 5)
    assert all(not state.any() for state in arrays(states))


@pytest.mark.usefixtures("kernels_on")
def test_kernels_and_equations_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    """One cell by its kernel also where there is no time for all."""
    player = player_of(random_weights(nn.Stack("lstm", INPUT, HIDDEN, 2, bidirectional=True)))
    x = np.random.default_rng(0).normal(size=(STEPS, len(LENGTHS), INPUT)).astype(np.float32)
    by_kernel, _ = player.run(x, lengths=np.array(LENGTHS))
    monkeypatch.setenv("UNSPOOL_ENGINE", "off")
    assert difference(by_kernel, player.run(x, lengths=np.array(LENGTHS))[0]) <= TOLERANCE


@pytest.mark.parametrize(
    "module",
    [torch_nn.Linear(3, 4), nn.DecoderTransformer(4, 2), nn.TimeDelay(nn.DecoderTransformer(4, 2), 1)],
    ids=["Linear", "DecoderTransformer", "delayed"],
)
def test_other_modules_are_refused_by_name(module: torch_nn.Module) -> None:
    with pytest.raises(ArgumentError, match="cannot be written down as data"):
        describe_layer(module)


def test_computed_weights_are_refused() -> None:
    layer = torch_nn.utils.parametrizations.weight_norm(nn.Recurrent("gru", 3, 4), "W_r")
    with pytest.raises(ArgumentError, match="computed from other tensors.*remove_parametrizations"):
        describe_layer(layer)


def test_the_list_of_cells_is_not_empty() -> None:
    assert len(VARIANTS) > 20
