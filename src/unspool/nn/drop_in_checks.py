"""What a drop-in refuses: torch.nn's own checks with its own messages, as our exceptions, and those it lacks."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from unspool.errors import ArgumentError, ArgumentTypeError, DeviceError, DTypeError, ShapeError
from unspool.nn.checks import check_like, check_memory

States = tuple[Tensor, ...]
REPACK = "Make the PackedSequence by torch.nn.utils.rnn.pack_padded_sequence"


def is_batched(layer: nn.RNNBase, input: Any) -> bool:
    """Whether the input has a batch axis; an error unless it is a tensor of two or three dimensions."""
    if not isinstance(input, Tensor):
        raise ArgumentTypeError.of("input", input, "is neither a tensor nor a PackedSequence", "Convert it first")
    if input.dim() not in (2, 3):
        what = "D tensor instead" if layer.mode.startswith("RNN") else "D instead"
        name = layer.mode.split("_")[0]
        raise ShapeError(
            f"{name}: Expected input to be 2D or 3D, got {input.dim()}{what}. Give (time, batch, features) or "
            "(time, features)."
        )
    return input.dim() == 3


def with_batch(states: States | None, batched: bool) -> States | None:
    """The initial states with a batch axis, if any are given."""
    if states is None:
        return None
    if any(part.dim() != (3 if batched else 2) for part in states):
        raise _wrong_rank(states, batched)
    return states if batched else tuple(part.unsqueeze(1) for part in states)


def check_weights(weights: Sequence[Any], names: Sequence[str]) -> None:
    """torch.nn's list of all weights holds one tensor per name."""
    if len(weights) != len(names):
        raise ShapeError.of("_flat_weights", len(weights), f"are not {len(names)} tensors", "Give one per weight")
    for name, weight in zip(names, weights, strict=True):
        if not isinstance(weight, Tensor):
            raise ArgumentTypeError.of(name, weight, "is not a tensor", "Assign a torch.nn.Parameter or a tensor")


def check_attributes(layer: nn.RNNBase) -> None:
    """A layer whose attributes were changed still has the weights that they ask for."""
    found = layer._all_weights
    if len(found) != layer.num_layers * (2 if layer.bidirectional else 1):
        problem = f"needs other weights than the layer has, of {len(found)} layers and directions"
        raise ArgumentError.of("num_layers", layer.num_layers, problem, "Make a layer of these sizes")
    if found and len(found[0]) != (4 if layer.bias else 2) + (layer.proj_size > 0):
        problem = f"needs other weights than the layer has: {', '.join(found[0])}"
        raise ArgumentError.of("bias", layer.bias, problem, "Make a layer with it")


def check_packed(packed: PackedSequence) -> None:
    """A PackedSequence that was made by hand is one that torch could have made; torch's own code reads it unchecked."""
    if torch.compiler.is_compiling():
        return  # its numbers are not known yet
    data, batch_sizes, *orders = packed
    if not isinstance(data, Tensor):
        raise ArgumentTypeError.of("input.data", data, "is not a tensor", REPACK)
    _check_integers("input.batch_sizes", batch_sizes, (torch.int64,))
    if batch_sizes.device.type != "cpu":
        raise DeviceError.of("input.batch_sizes", batch_sizes.device, "is not the CPU", REPACK)
    sizes = batch_sizes.tolist()
    falling = all(after <= before for before, after in pairwise(sizes))
    if not sizes or not falling or sizes[-1] < 1 or sum(sizes) != len(data):
        problem = f"are not positive numbers that never rise and sum to the {len(data)} rows of data"
        raise ShapeError.of("input.batch_sizes", sizes, problem, REPACK)
    for name, order in zip(("sorted_indices", "unsorted_indices"), orders, strict=True):
        if order is not None:
            _check_integers(f"input.{name}", order, (torch.int64, torch.int32))
            if sorted(order.tolist()) != list(range(sizes[0])):
                problem = f"are not the numbers from 0 to {sizes[0] - 1}, each once"
                raise ShapeError.of(f"input.{name}", order.tolist(), problem, REPACK)


def _check_integers(name: str, value: Any, dtypes: tuple[torch.dtype, ...]) -> None:
    """`value` is one row of whole numbers in memory."""
    if not isinstance(value, Tensor) or value.layout != torch.strided or value.is_meta:
        raise ArgumentTypeError.of(name, value, "is not a dense tensor", REPACK)
    if value.dim() != 1:
        raise ShapeError.of(name, tuple(value.shape), "does not have one dimension", REPACK)
    if value.dtype not in dtypes:
        raise DTypeError.of(name, value.dtype, f"is not {dtypes[0]}", REPACK)
    check_memory(name, value)


def check_call(
    layer: nn.RNNBase, weight: Tensor, input: Tensor, hx: States | None, batch_sizes: Tensor | None = None
) -> None:
    """Element types, shapes and devices of a call. A packed input comes as its data and its `batch_sizes`."""
    if input.dtype != weight.dtype and not torch.is_autocast_enabled(weight.device.type):
        raise DTypeError(
            f"RNN input dtype ({input.dtype}) does not match weight dtype ({weight.dtype}). "
            f"Convert input: input.to({weight.dtype}), or convert model: model.to({input.dtype})."
        )
    _check_shapes(layer, input, hx, batch_sizes)
    if input.device != weight.device:
        raise DeviceError(
            "Input and parameter tensors are not at the same device, found input tensor at "
            f"{input.device} and parameter tensor at {weight.device}. Move one of them by .to(device)."
        )
    for part in hx or ():
        if part.device != input.device:
            raise DeviceError(
                "Input and hidden tensors are not at the same device, found input tensor at "
                f"{input.device} and hidden tensor at {part.device}. Move one of them by .to(device)."
            )
        check_like("hx", part, input)


def _check_shapes(layer: nn.RNNBase, input: Tensor, hx: States | None, batch_sizes: Tensor | None) -> None:
    try:
        if input.dim() != (3 if batch_sizes is None else 2) or input.shape[-1] != layer.input_size:
            layer.check_input(input, batch_sizes)
        if hx is not None and (batch_sizes is not None or not _fit(layer, input, hx)):
            layer.check_forward_args(input, hx if layer.mode == "LSTM" else hx[0], batch_sizes)  # type: ignore[arg-type]
    except RuntimeError as error:
        raise ShapeError(f"{error}. Change its shape, or the layer's sizes.") from error


def _fit(layer: nn.RNNBase, input: Tensor, hx: States) -> bool:
    """Whether the states of a padded batch have the shapes that torch.nn asks for; quicker than its own check."""
    count, rows = layer.num_layers * (2 if layer.bidirectional else 1), input.shape[0 if layer.batch_first else 1]
    widths = layer.proj_size or layer.hidden_size, layer.hidden_size
    return all(part.shape == (count, rows, width) for part, width in zip(hx, widths, strict=False))


def _wrong_rank(states: States, batched: bool) -> ShapeError:
    """torch.nn's message about initial states of another rank than the input, and the remedy."""
    ranks = [f"{part.dim()}-D" for part in states]
    names, got = ("hx", f"{ranks[0]} tensor") if len(ranks) == 1 else ("hx and cx", f"({', '.join(ranks)}) tensors")
    kind, rank, batch = ("batched", 3, ", batch") if batched else ("unbatched", 2, "")
    return ShapeError(
        f"For {kind} {rank}-D input, {names} should also be {rank}-D but got {got}. "
        f"Give (layers · directions{batch}, width)."
    )
