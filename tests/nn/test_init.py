"""Initial weights by their definition, for our layers and the drop-ins alike."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import unspool
from unspool.errors import ArgumentError, ArgumentTypeError
from unspool.nn import GRU, LSTM, RNN, Bidirectional, Recurrent, Stack, init


def eye(size: int) -> Tensor:
    return torch.eye(size, dtype=torch.float64)


def test_default_is_torchs_distribution() -> None:
    layer = init.default_(Recurrent("gru", 50, 100))
    values = torch.cat([parameter.detach().flatten() for parameter in layer.parameters()])
    assert values.abs().max() <= 0.1
    assert values.std() == pytest.approx(0.1 / math.sqrt(3), rel=0.02)
    torch.manual_seed(3)
    ours: Any = init.default_(LSTM(3, 4))
    torch.manual_seed(3)
    nn.LSTM(3, 4)  # draws once in its constructor, as ours did before
    theirs: Any = nn.LSTM(3, 4)
    assert torch.equal(ours.weight_hh_l0, theirs.weight_hh_l0)


@pytest.mark.parametrize(
    "module",
    [
        Recurrent("lstm", 3, 6),
        Stack("gru", 3, 6, 2, bidirectional=True),
        Bidirectional("skip", 3, 6),
        LSTM(3, 6, 2),
        RNN(3, 6),
    ],
    ids=lambda m: type(m).__name__,
)
def test_orthogonal(module: nn.Module) -> None:
    init.orthogonal_(module.double(), gain=2.0)
    checked = 0
    for name, parameter in module.named_parameters():
        if name.split(".")[-1].startswith(("U", "weight_hh")):
            for block in parameter.split(6):
                torch.testing.assert_close(block.T @ block, 4 * eye(6), rtol=0, atol=1e-12)
                checked += 1
    assert checked


@pytest.mark.parametrize(
    "module", [Recurrent("elman-relu", 3, 6), RNN(3, 6, nonlinearity="relu")], ids=["ours", "drop-in"]
)
def test_identity_remembers(module: Any) -> None:
    """With no input, a relu network with U = I and b = 0 keeps any positive state for ever."""
    init.identity_(module)
    start = torch.rand(1, 2, 6) if isinstance(module, nn.RNNBase) else torch.rand(2, 6)
    _, final = module(torch.zeros(50, 2, 3), start)
    torch.testing.assert_close(final, start, rtol=0, atol=1e-6)
    init.identity_(module, scale=0.5)
    torch.testing.assert_close(module(torch.zeros(3, 2, 3), start)[1], start / 8, rtol=0, atol=1e-6)


def test_identity_is_for_relu() -> None:
    with pytest.raises(ArgumentError, match="elman-relu"):
        init.identity_(Recurrent("lstm", 3, 6))


@pytest.mark.parametrize(
    ("module", "expected"),
    [
        (Recurrent("lstm", 3, 6), ("f", 0.88)),
        (Recurrent("gru", 3, 6), ("z", 0.12)),
        (Recurrent("gru-reset-after", 3, 6), ("z", 0.88)),
        (LSTM(3, 6), ("f", 0.88)),
        (GRU(3, 6), ("z", 0.88)),
        (GRU(3, 6, reset="before"), ("z", 0.12)),
    ],
    ids=["lstm", "gru", "gru-reset-after", "nn.LSTM", "nn.GRU", "nn.GRU before"],
)
def test_forget_bias_opens_the_gate_that_keeps(module: Any, expected: tuple[str, float]) -> None:
    """At zero input and state the gate is σ(±2)."""
    init.forget_bias_(module, 2.0)
    *_, values = module(torch.zeros(1, 2, 3), trace=True)
    gate = values["l0"] if isinstance(module, nn.RNNBase) else values
    torch.testing.assert_close(gate[expected[0]], torch.full((1, 2, 6), expected[1]), rtol=0, atol=1e-2)


def test_forget_bias_has_the_precision_of_its_layer() -> None:
    layer: Any = init.forget_bias_(Recurrent("lstm", 1, 2, dtype=torch.float64), 0.1)
    assert layer.b_f.tolist() == [0.1, 0.1]


@pytest.mark.parametrize("module", [Recurrent("lstm", 3, 2000), LSTM(3, 2000)], ids=["ours", "drop-in"])
def test_chrono_spreads_the_time_constants(module: Any) -> None:
    """f = u / (1 + u), so that 1 / (1 − f) = 1 + u is uniform in [2, T]; i = 1 − f."""
    init.chrono_(module, 100)
    *_, values = module(torch.zeros(1, 3), trace=True)
    f, i = (
        (values["l0"] if isinstance(module, nn.RNNBase) else values)[name].detach().flatten().double() for name in "fi"
    )
    memory = 1 / (1 - f)
    assert 1.99 <= memory.min() < 4
    assert 97 < memory.max() <= 100.01
    assert memory.mean() == pytest.approx(51, abs=2)
    torch.testing.assert_close(i, 1 - f, rtol=0, atol=1e-6)


def test_gated_initialisation_needs_gates() -> None:
    with pytest.raises(ArgumentError, match="no gate"):
        init.forget_bias_(Recurrent("elman", 3, 6))
    with pytest.raises(ArgumentError, match="bias"):
        init.chrono_(LSTM(3, 6, bias=False), 10)
    with pytest.raises(ArgumentError, match="longest"):
        init.chrono_(LSTM(3, 6), 2)
    with pytest.raises(ArgumentTypeError, match="accelerate"):
        init.orthogonal_(nn.LSTM(3, 4))


@pytest.mark.parametrize(
    "layer", [Recurrent("linear", 3, 5), RNN(3, 5), Recurrent("lstm", 3, 5)], ids=["linear", "RNN", "lstm"]
)
def test_orthogonality_is_kept_in_training(layer: Any) -> None:
    """The powers of the transposed recurrent matrices have norm 1, before and after 30 steps of Adam."""
    torch.manual_seed(0)
    init.keep_orthogonal(layer.double())
    names = [name for name in ("U_h", "U_i", "U_f", "U_g", "U_o", "weight_hh_l0") if hasattr(layer, name)]
    before = [getattr(layer, name).detach().clone() for name in names]
    optimizer = torch.optim.Adam(layer.parameters(), 0.05)
    x = torch.randn(8, 4, 3, dtype=torch.float64)
    losses = []
    for _ in range(30):
        optimizer.zero_grad()
        loss = (layer(x)[0] - 0.3).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.8 * losses[0]
    for name, old in zip(names, before, strict=True):
        U = getattr(layer, name)
        assert (U - old).abs().max() > 0.05  # it did move
        for k in (1, 10, 100):
            norm = torch.linalg.matrix_norm(torch.linalg.matrix_power(U.T, k), 2)
            assert float(norm.detach()) == pytest.approx(1, abs=1e-10)


def test_orthogonal_linear_network_keeps_gradients() -> None:
    layer = init.keep_orthogonal(Recurrent("linear", 3, 5).double())
    start = torch.randn(1, 5, dtype=torch.float64, requires_grad=True)
    _, final = layer(torch.zeros(200, 1, 3, dtype=torch.float64), start)
    gradient = torch.autograd.grad(final, start, torch.ones_like(final))[0]
    assert float(gradient.norm()) == pytest.approx(math.sqrt(5), abs=1e-10)


def test_keep_orthogonal_refuses_stacked_and_narrow_matrices() -> None:
    with pytest.raises(ArgumentTypeError, match="Recurrent"):
        init.keep_orthogonal(LSTM(3, 5))
    with pytest.raises(ArgumentError, match="square"):
        init.keep_orthogonal(Recurrent(unspool.cells.Jordan(output_size=2), 3, 5))
