"""Initial weights: each function fills the parameters of a module's recurrent layers in place and returns the module.

They act on every recurrent layer inside the module: Recurrent, Bidirectional, Stack and the drop-ins for torch.nn.
`keep_orthogonal` also keeps the recurrent matrices orthogonal during training.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeVar

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrizations

from unspool.cells import Cell, Elman
from unspool.cells.numbers import is_whole
from unspool.errors import ArgumentError, ArgumentTypeError
from unspool.nn.recurrent import Recurrent
from unspool.nn.rnn import GRU, LSTM, RNN

Module = TypeVar("Module", bound=nn.Module)


@dataclass(frozen=True)
class _Direction:
    """The parameters of one cell, as tensors or views to be filled in place."""

    cell: Cell
    recurrent: dict[str, Tensor]  # map → U
    biases: dict[str, tuple[Tensor, ...]]  # map → the vectors whose sum is b


def default_(module: Module) -> Module:
    """Draw every weight as torch.nn does: uniform within ±1/√hidden_size.

    Args:
        module: any module with recurrent layers of unspool.nn.

    Returns:
        The module.

    Example:
        >>> unspool.nn.init.default_(unspool.nn.Recurrent("gru", 3, 4))
    """
    for layer in _layers(module):
        layer.reset_parameters()
    return module


@torch.no_grad()
def orthogonal_(module: Module, gain: float = 1.0) -> Module:
    """Make every recurrent matrix orthogonal (its columns, if it is not square), so that gradients keep their norm.

    Args:
        module: any module with recurrent layers of unspool.nn.
        gain: a factor for every matrix.

    Returns:
        The module.

    Example:
        >>> unspool.nn.init.orthogonal_(unspool.nn.Stack("elman", 3, 4, num_layers=2))
    """
    for direction in _directions(module):
        for matrix in direction.recurrent.values():
            nn.init.orthogonal_(matrix, gain)
    return module


@torch.no_grad()
def identity_(module: Module, scale: float = 1.0) -> Module:
    """Make every recurrent matrix a multiple of the identity and every bias zero: at first the state is kept as it is.

    Args:
        module: any module whose recurrent layers are Elman's with relu or the identity.
        scale: the factor of the identity.

    Returns:
        The module.

    Example:
        >>> unspool.nn.init.identity_(unspool.nn.Recurrent("elman-relu", 3, 4), 0.9)
    """
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
    """Set the bias of every gate that keeps the old state: LSTM's f, GRU's z.

    Args:
        module: any module whose recurrent layers have such gates, with biases.
        value: larger values keep more. Where a gate of 1 discards the state, as in our GRU, the bias is −`value`.

    Returns:
        The module.

    Example:
        >>> unspool.nn.init.forget_bias_(unspool.nn.LSTM(3, 4), 2.0)
    """
    for direction in _gated(module):
        for gate, sign in direction.cell.keeps.items():
            _fill(direction.biases[gate], sign * value)
    return module


@torch.no_grad()
def chrono_(module: Module, longest: int) -> Module:
    """Chrono initialisation: gate biases for memories of 1 to `longest` steps.

    Per unit b = ln u with u uniform in [1, longest − 1]. Gates that keep get +b, gates that write −b, so that the time
    constants spread over the lags of the data.

    Args:
        module: any module whose recurrent layers have such gates, with biases.
        longest: the longest lag to keep, in steps.

    Returns:
        The module.

    Example:
        >>> unspool.nn.init.chrono_(unspool.nn.Recurrent("lstm", 3, 4), longest=200)
    """
    if not is_whole(longest) or longest < 3:
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
    """Make every recurrent matrix orthogonal and keep it so during training, by torch's own parametrization.

    Args:
        module: any module whose recurrent layers have one square matrix per parameter: `Recurrent` and `RNN`.

    Returns:
        The module.

    Example:
        >>> unspool.nn.init.keep_orthogonal(unspool.nn.Recurrent("gru", 3, 4))
    """
    matrices = [(layer, name) for layer in _layers(module) for name in _square_matrices(layer)]
    for layer, name in matrices:  # only when all were found to be square
        parametrizations.orthogonal(layer, name)
    return module


def _square_matrices(layer: nn.Module) -> list[str]:
    """The names of the recurrent matrices of a layer, each a parameter of its own."""
    if isinstance(layer, RNN):
        names = [name for name in layer._flat_weights_names if name.startswith("weight_hh")]
    elif isinstance(layer, Recurrent):
        names = list(layer.equations.recurrent_matrices)
    else:
        raise ArgumentTypeError.of(
            "module", type(layer).__name__, "stacks its gates' matrices in one parameter", "Use nn.Recurrent"
        )
    for name in names:
        rows, columns = shape = tuple(getattr(layer, name).shape)
        if rows != columns:
            raise ArgumentError.of(name, shape, "is not square", "Make the sizes equal")
    return names


def _fill(parts: tuple[Tensor, ...], value: Tensor | float) -> None:
    """Make the vectors add up to `value`."""
    parts[0].copy_(torch.as_tensor(value, dtype=parts[0].dtype))  # a number is not rounded to float32 on its way
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
            yield _direction_of(layer)
        else:
            yield from _directions_of_drop_in(layer)


def _direction_of(layer: Recurrent) -> _Direction:
    """A bias that stands outside its map, as behind a normalization, is a vector bias_… of the cell."""
    found = (re.fullmatch(r"(?:b|bias)_(\w+)", name) for name in layer.equations.parameters)
    return _Direction(
        layer.cell,
        {name: getattr(layer, name) for name in layer.equations.recurrent_matrices},
        {name[1]: (getattr(layer, name[0]),) for name in found if name},
    )


def _directions_of_drop_in(layer: RNN | GRU | LSTM) -> Iterator[_Direction]:
    """torch.nn stacks the gates' blocks in one parameter, and has two biases."""
    for names in layer._all_weights:
        key = names[0].removeprefix("weight_ih_")
        blocks = getattr(layer, f"weight_hh_{key}").chunk(len(layer.gates))
        biases = [getattr(layer, f"bias_{side}_{key}") for side in ("ih", "hh")] if layer.bias else []
        sides = [bias.chunk(len(layer.gates)) for bias in biases]
        yield _Direction(
            layer.cell,
            dict(zip(layer.gates, blocks, strict=True)),
            dict(zip(layer.gates, zip(*sides, strict=True), strict=False)),
        )
