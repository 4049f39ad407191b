"""Initial weights: each function fills a layer's parameters in place and returns the layer.

All of them take any module and act on every recurrent layer inside it: Recurrent, Bidirectional, Stack and the
drop-ins for torch.nn. `keep_orthogonal` goes further and keeps the recurrent matrices orthogonal in training.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeVar

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrizations

from unspool.cells import Cell, Elman
from unspool.errors import ArgumentError, ArgumentTypeError
from unspool.nn.recurrent import Recurrent
from unspool.nn.rnn import GRU, LSTM, RNN

Module = TypeVar("Module", bound=nn.Module)


@dataclass(frozen=True)
class _Direction:
    """One cell's parameters, as tensors or views to be filled in place."""

    cell: Cell
    recurrent: dict[str, Tensor]  # map → U
    biases: dict[str, tuple[Tensor, ...]]  # map → the vectors whose sum is b


def default_(module: Module) -> Module:
    """torch.nn's distribution: every weight uniform within ±1/√hidden_size."""
    for layer in _layers(module):
        layer.reset_parameters()
    return module


@torch.no_grad()
def orthogonal_(module: Module, gain: float = 1.0) -> Module:
    """Every recurrent matrix orthogonal (its columns, if it is not square), times `gain`. Gradients keep their norm."""
    for direction in _directions(module):
        for matrix in direction.recurrent.values():
            nn.init.orthogonal_(matrix, gain)
    return module


@torch.no_grad()
def identity_(module: Module, scale: float = 1.0) -> Module:
    """Every recurrent matrix `scale` times the identity, every bias zero: a relu network that starts by remembering."""
    for direction in _directions(module):
        if not (isinstance(direction.cell, Elman) and direction.cell.activation in ("relu", "identity")):
            raise ArgumentError.of(
                "module", direction.cell, "does not remember by an identity matrix", "Use the cell 'elman-relu'"
            )
        for matrix in direction.recurrent.values():
            nn.init.eye_(matrix).mul_(scale)
        for parts in direction.biases.values():
            _fill(parts, 0.0)
    return module


@torch.no_grad()
def forget_bias_(module: Module, value: float = 1.0) -> Module:
    """The bias of every gate that keeps the old state set to `value` in the direction that keeps: LSTM's f, GRU's z."""
    for direction in _gated(module):
        for gate, sign in direction.cell.keeps.items():
            _fill(direction.biases[gate], sign * value)
    return module


@torch.no_grad()
def chrono_(module: Module, longest: int) -> Module:
    """Gate biases for memories of 1 to `longest` steps: b = ln u with u uniform in [1, longest − 1], per unit.

    Gates that keep get +b, gates that write −b, so that their time constants spread over the lags of the data.
    """
    if isinstance(longest, bool) or not isinstance(longest, int) or longest < 3:
        raise ArgumentError.of("longest", longest, "is not a whole number from 3 on", "Give the longest lag to keep")
    for direction in _gated(module):
        for gate, sign in direction.cell.keeps.items():
            first = direction.biases[gate][0]
            b = torch.empty_like(first).uniform_(1, longest - 1).log()
            _fill(direction.biases[gate], sign * b)
            for other, direction_of_writing in direction.cell.writes.items():
                _fill(direction.biases[other], -direction_of_writing * b)
    return module


def keep_orthogonal(module: Module) -> Module:
    """Make every recurrent matrix orthogonal and let training keep it so, by torch's own parametrisation."""
    matrices = []
    for layer in _layers(module):
        if isinstance(layer, RNN):
            names = [name for name in layer._flat_weights_names if name.startswith("weight_hh")]
        elif isinstance(layer, Recurrent):
            names = list(layer.equations.recurrent_matrices)
        else:
            raise ArgumentTypeError.of(
                "module", type(layer).__name__, "stacks its gates' matrices in one parameter", "Use nn.Recurrent"
            )
        for name in names:
            if getattr(layer, name).shape[0] != getattr(layer, name).shape[1]:
                raise ArgumentError.of(name, tuple(getattr(layer, name).shape), "is not square", "Make the sizes equal")
            matrices.append((layer, name))
    for layer, name in matrices:
        parametrizations.orthogonal(layer, name)
    return module


def _fill(parts: tuple[Tensor, ...], value: Tensor | float) -> None:
    """Make the vectors add up to `value`."""
    parts[0].copy_(torch.as_tensor(value))
    for rest in parts[1:]:
        rest.zero_()


def _layers(module: nn.Module) -> list[Recurrent | RNN | GRU | LSTM]:
    found = [part for part in module.modules() if isinstance(part, Recurrent | RNN | GRU | LSTM)]
    if not found:
        raise ArgumentTypeError.of(
            "module",
            type(module).__name__,
            "has no recurrent layer of unspool.nn",
            "Call unspool.accelerate on it first",
        )
    return found


def _gated(module: nn.Module) -> list[_Direction]:
    directions = list(_directions(module))
    for direction in directions:
        needed = [*direction.cell.keeps, *direction.cell.writes]
        if not direction.cell.keeps or not all(gate in direction.biases for gate in needed):
            raise ArgumentError.of(
                "module",
                direction.cell,
                "has no gate with a bias that keeps its state",
                "Use 'lstm' or 'gru', with bias",
            )
    return directions


def _directions(module: nn.Module) -> Iterator[_Direction]:
    for layer in _layers(module):
        if isinstance(layer, Recurrent):
            biases = [name for name in layer.equations.parameters if name.startswith("b_")]
            yield _Direction(
                layer.cell,
                {name: getattr(layer, name) for name in layer.equations.recurrent_matrices},
                {name[2:]: (getattr(layer, name),) for name in biases},
            )
            continue
        for names in layer._all_weights:
            key = names[0].removeprefix("weight_ih_")
            blocks = getattr(layer, f"weight_hh_{key}").chunk(len(layer.gates))
            sides = (
                [getattr(layer, f"bias_{side}_{key}").chunk(len(layer.gates)) for side in ("ih", "hh")]
                if layer.bias
                else []
            )
            yield _Direction(
                layer.cell,
                dict(zip(layer.gates, blocks, strict=True)),
                dict(zip(layer.gates, zip(*sides, strict=True), strict=False)),
            )
