"""The networks of `xray_accuracy.py`: healthy ones, and ones with a planted fault, each as settings that a user gives.

A fault is planted in the initial weights, in the data or in how training goes. A remedy changes settings: new initial
weights (`init`, another `cell`) replace planted ones, `forget_bias` replaces the bias of gates that keep, and
everything else stays as it was planted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from unspool import Cell, sigmoid, tanh
from unspool.cells.functions import relu
from unspool.cells.symbols import Symbol
from unspool.nn import Stack, init
from unspool.nn.recurrent import Recurrent

#: The maps of torch.nn's layers, in the order of their rows.
TORCH_MAPS = {"torch-rnn": "h", "torch-gru": "rzn", "torch-lstm": "ifgo"}
TORCH_LAYERS: Mapping[str, Callable[..., nn.Module]] = {
    "torch-rnn": nn.RNN,
    "torch-gru": nn.GRU,
    "torch-lstm": nn.LSTM,
}


class Minimal(Cell):
    """A user's gated cell: one gate, which lets the new state in."""

    keeps = {"z": -1}

    def step(self, x: Symbol, h: Symbol) -> Symbol:
        z = sigmoid(self.linear("z", x, h))
        n = tanh(self.linear("n", x, h))
        return (1 - z) * h + z * n


class Rectified(Cell):
    """A user's cell of rectified units."""

    def step(self, x: Symbol, h: Symbol) -> Symbol:
        return relu(self.linear("h", x, h))


class Squashed(Cell):
    """A user's cell of tanh units."""

    def step(self, x: Symbol, h: Symbol) -> Symbol:
        return tanh(self.linear("h", x, h))


OWN: Mapping[str, type[Cell]] = {"Minimal": Minimal, "Rectified": Rectified, "Squashed": Squashed}

#: The parameters of one layer in one direction, by their names in the equations.
Weights = Mapping[str, Tensor]
Plant = Callable[[list[Weights], torch.Generator], None]


@dataclass(frozen=True)
class Task:
    """What is learned: the value of the first feature some steps ago, at every step or at the last one."""

    lag: int = 2
    steps: int = 48
    rows: int = 24
    last: bool = False

    def draw(self, seed: int, rows: int | None = None) -> tuple[Tensor, Tensor]:
        """Inputs of three features, and targets."""
        generator = torch.Generator().manual_seed(seed)
        x = torch.randn(self.steps, rows or self.rows, 3, generator=generator)
        if self.last:
            return x, x[-1 - self.lag, :, :1]
        y = torch.zeros(self.steps, x.shape[1], 1)
        y[self.lag :] = x[: self.steps - self.lag, :, :1]
        return x, y


@dataclass(frozen=True)
class Setup:
    """A network and how it is trained, as far as a remedy can change it."""

    cell: str = "lstm"
    layers: int = 1
    bidirectional: bool = False
    hidden: int = 24
    task: Task = Task()
    seed: int = 0
    plant: Plant | None = None
    init: str | None = None
    forget_bias: float | None = None
    bptt: int | None = None
    clip: float = 1.0
    weight_decay: float = 0.0
    gate_penalty: float = 0.0
    sizes: tuple[float, float, float] = (1.0, 1.0, 1.0)  # of the features
    offset: float = 0.0
    standardized: bool = False

    def describe(self) -> str:
        """Such as `lstm, 2 layers, both directions`."""
        layers = f", {self.layers} layers" if self.layers > 1 else ""
        width = f", {self.hidden} units" if self.hidden != Setup.hidden else ""
        return f"{self.cell}{layers}{width}{', both directions' if self.bidirectional else ''}"

    def read(self, x: Tensor) -> Tensor:
        """The inputs as the network gets them."""
        return x if self.standardized else x * torch.tensor(self.sizes) + self.offset

    def follow(self, key: str, settings: Mapping[str, Any]) -> Setup:
        """The setup after a remedy."""
        known = {name: value for name, value in settings.items() if name in self.__dataclass_fields__}
        fresh = {"plant": None} if {"init", "cell"} & known.keys() else {}
        if "cell" in known and known["cell"] in ("elman", "elman-relu"):
            fresh["forget_bias"] = None
        return replace(self, **{**known, **fresh}, standardized=self.standardized or key == "scaled")


class Network(nn.Module):
    """Recurrent layers and a head."""

    def __init__(self, setup: Setup) -> None:
        super().__init__()
        torch.manual_seed(setup.seed)
        self.last = setup.task.last
        self.layers = _layers(setup)
        self.head = nn.Linear(setup.hidden * (1 + setup.bidirectional), 1)
        if setup.init == "orthogonal":
            for weights in weights_of(self.layers):
                for name, value in weights.items():
                    if name.startswith("U_"):
                        nn.init.orthogonal_(value)
        if setup.plant is not None:
            with torch.no_grad():
                setup.plant(weights_of(self.layers), torch.Generator().manual_seed(setup.seed))
        if setup.forget_bias is not None:
            _set_forget_bias(self.layers, setup)

    def forward(self, x: Tensor) -> Tensor:
        output = self.layers(x)[0]
        predicted: Tensor = self.head(output[-1] if self.last else output)
        return predicted


def _layers(setup: Setup) -> nn.Module:
    if setup.cell in TORCH_LAYERS:
        return TORCH_LAYERS[setup.cell](3, setup.hidden, setup.layers, bidirectional=setup.bidirectional)
    cell = OWN.get(setup.cell, setup.cell)
    return Stack(cell, 3, setup.hidden, setup.layers, bidirectional=setup.bidirectional)


@torch.no_grad()
def _set_forget_bias(layers: nn.Module, setup: Setup) -> None:
    if setup.cell not in TORCH_LAYERS:
        init.forget_bias_(layers, setup.forget_bias or 0.0)
        return
    gate = {"torch-lstm": "b_f", "torch-gru": "b_z"}[setup.cell]
    for weights in weights_of(layers):
        weights[gate].fill_(setup.forget_bias or 0.0)


def weights_of(layers: nn.Module) -> list[Weights]:
    """The parameters of each layer and direction, as views that can be filled; of two biases the second is zero."""
    own = [module for module in layers.modules() if isinstance(module, Recurrent)]
    if own:
        return [dict(module.cell_parameters()) for module in own]
    kind = next(name for name, made in TORCH_LAYERS.items() if type(layers) is made)
    return [_torch_weights(layers, names, TORCH_MAPS[kind]) for names in layers.all_weights]  # type: ignore[union-attr]


@torch.no_grad()
def _torch_weights(layers: nn.Module, found: list[Tensor], maps: str) -> Weights:  # noqa: ARG001
    read, recurrent, bias, second = found
    second.zero_()
    parts = [value.chunk(len(maps)) for value in (read, recurrent, bias)]
    return {
        f"{kind}_{name}": chunk
        for kind, part in zip("WUb", parts, strict=True)
        for name, chunk in zip(maps, part, strict=True)
    }


def loss_of(predicted: Tensor, y: Tensor) -> Tensor:
    """The mean squared error."""
    return functional.mse_loss(predicted, y)


def of_kind(weights: Weights, kind: str) -> Iterator[Tensor]:
    """All matrices W, all U or all biases b."""
    return (value for name, value in weights.items() if name.startswith(kind))


# ---- plants: each makes one fault out of weights


def fill(layers: slice = slice(None), **values: float) -> Plant:
    """Parameters by name, in some layers."""

    def plant(found: list[Weights], _: torch.Generator) -> None:
        for weights in found[layers]:
            for name, value in values.items():
                if name in weights:
                    weights[name].fill_(value)

    return plant


def multiply(layers: slice = slice(None), **factors: float) -> Plant:
    """All matrices W, all U or all biases b times a factor, in some layers."""

    def plant(found: list[Weights], _: torch.Generator) -> None:
        for weights in found[layers]:
            for kind, factor in factors.items():
                for value in of_kind(weights, kind):
                    value.mul_(factor)

    return plant


def together(*plants: Plant) -> Plant:
    """Several plants, one after another."""

    def plant(found: list[Weights], generator: torch.Generator) -> None:
        for one in plants:
            one(found, generator)

    return plant


def identity(factor: float, layers: slice = slice(None)) -> Plant:
    """Recurrent matrices that are a multiple of the identity, inputs that add up."""

    def plant(found: list[Weights], _: torch.Generator) -> None:
        for weights in found[layers]:
            for value in of_kind(weights, "U"):
                nn.init.eye_(value).mul_(factor)

    return plant


def orthogonal(factor: float = 1.0, layers: slice = slice(None)) -> Plant:
    """Orthogonal recurrent matrices, times a factor."""

    def plant(found: list[Weights], generator: torch.Generator) -> None:
        for weights in found[layers]:
            for value in of_kind(weights, "U"):
                value.copy_(factor * torch.linalg.qr(torch.randn(value.shape, generator=generator)).Q)

    return plant


def random(gain: float, read: float) -> Plant:
    """Random recurrent matrices of a gain, and small input matrices."""

    def plant(found: list[Weights], generator: torch.Generator) -> None:
        for weights in found:
            for value in of_kind(weights, "U"):
                value.copy_(torch.randn(value.shape, generator=generator) * gain / len(value) ** 0.5)
            for value in of_kind(weights, "W"):
                value.mul_(read)

    return plant


def kill(part: float, layers: slice = slice(None)) -> Plant:
    """Biases far below zero for a part of the units."""

    def plant(found: list[Weights], _: torch.Generator) -> None:
        for weights in found[layers]:
            for value in of_kind(weights, "b"):
                value[: int(part * len(value))] = -50.0

    return plant


def add_up(bias: float) -> Plant:
    """An LSTM that adds up a constant of either sign, and hardly lets go."""

    def plant(found: list[Weights], _: torch.Generator) -> None:
        for weights in found:
            weights["b_f"].fill_(bias)
            weights["b_i"].fill_(3.0)
            half = len(weights["b_g"]) // 2
            weights["b_g"][:half] = 2.0
            weights["b_g"][half:] = -2.0

    return plant
