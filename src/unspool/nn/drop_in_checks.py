"""What a drop-in refuses: torch.nn's own checks with its own messages, as our exceptions, and those it lacks."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from operator import is_
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from unspool.cells.cell import check_size
from unspool.errors import ArgumentError, ArgumentTypeError, DeviceError, DTypeError, ShapeError
from unspool.nn.boundary import are_held, check_quickly
from unspool.nn.checks import Shape, check_like, check_memory, check_probability, check_viewable, is_autocast
from unspool.nn.compiling import constant_result
from unspool.nn.route import PLAIN

QUANTIZED = (
    "torch.ao.quantization looks up the exact type of a layer, so this layer of unspool.nn stays as it is. "
    "To quantize it too, call unspool.restore(model) before."
)
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
    check_viewable("input", input)
    return input.dim() == 3


def with_batch(states: States | None, batched: bool) -> States | None:
    """The initial states with a batch axis, if any are given."""
    if states is None:
        return None
    if any(part.dim() != (3 if batched else 2) for part in states):
        raise _wrong_rank(states, batched)
    for part in states:
        check_viewable("hx", part)
    return states if batched else tuple(part.unsqueeze(1) for part in states)


def find_starts(hx: Any, count: int) -> Sequence[States] | None:
    """The initial states of each of so many layers, (batch, width), or None if they have to be checked before."""
    if hx is None:
        return [()] * count
    parts = (hx,) if isinstance(hx, Tensor) else hx
    if not isinstance(parts, tuple) or (parts is hx and len(parts) < 2):  # one state comes as a tensor
        return None
    for part in parts:
        if type(part) not in PLAIN or not part.is_cpu or part.dim() != 3 or len(part) != count:
            return None
    try:
        return (
            tuple(zip(*(part.unbind() for part in parts), strict=True))
            if are_held(parts, parts[0].element_size())
            else None
        )
    except RuntimeError:  # under a function transform, they have no memory of their own
        return None


def is_settled(layer: nn.RNNBase) -> bool:
    """Whether torch.nn's list of all weights holds the registered parameters, so that it is up to date."""
    weights, names = layer._flat_weights, layer._flat_weights_names
    return len(weights) == len(names) and all(map(is_, weights, map(layer._parameters.get, names)))


def check_weights(weights: Sequence[Any], names: Sequence[str]) -> None:
    """torch.nn's list of all weights holds one tensor per name."""
    if len(weights) != len(names):
        raise ShapeError.of("_flat_weights", len(weights), f"are not {len(names)} tensors", "Give one per weight")
    for name, weight in zip(names, weights, strict=True):
        if not isinstance(weight, Tensor):
            raise ArgumentTypeError.of(name, weight, "is not a tensor", "Assign a torch.nn.Parameter or a tensor")


def check_assigned(name: str, value: Any) -> None:
    """What is assigned to an attribute of torch.nn's is of its type; whether it fits is asked at each call."""
    if name in ("_flat_weights", "_all_weights", "_flat_weights_names"):
        if not isinstance(value, list | tuple):
            raise ArgumentTypeError.of(name, value, "is not a list", "Leave it as the layer made it")
    elif name in ("input_size", "hidden_size", "num_layers", "proj_size"):
        check_size(name, value, least=0)
    elif name == "dropout":
        check_probability(name, value)


def find_changed(layer: nn.RNNBase) -> str | None:
    """The name of an attribute that was changed and asks for other weights than the layer has, or None."""
    found = layer._all_weights
    if not found:
        return "num_layers"
    count = len(found[0])  # weight_ih and weight_hh, then two biases if there are any, then weight_hr if there is one
    if bool(layer.bidirectional) != found[-1][0].endswith("_reverse"):
        return "bidirectional"
    if layer.num_layers * (2 if layer.bidirectional else 1) != len(found):
        return "num_layers"
    if (layer.proj_size != 0) != (count % 2 == 1):
        return "proj_size"
    return "bias" if bool(layer.bias) != (count >= 4) else None


def check_attributes(layer: nn.RNNBase) -> None:
    """A layer whose attributes were changed still has the weights that they ask for."""
    name = find_changed(layer)
    if name is not None:
        problem = f"needs other weights than the layer has: {', '.join(layer._flat_weights_names)}"
        raise ArgumentError.of(name, getattr(layer, name), problem, "Make a layer with it")


def check_for_torch(layer: nn.RNNBase, weights: Sequence[Tensor], input: Any, hx: States | None) -> None:
    """What torch.nn's forward does not ask before its native code: the fit and the memory of every tensor."""
    input = input.data if isinstance(input, PackedSequence) else input
    autocast = is_autocast(input.device)
    gates: tuple[str, ...] = layer.gates  # type: ignore[assignment]
    sizes = layer.input_size, layer.hidden_size, layer.proj_size
    shapes = weight_shapes(len(gates), *sizes, layer.num_layers, bool(layer.bidirectional), bool(layer.bias))
    for name, weight, shape in zip(layer._flat_weights_names, weights, shapes, strict=True):
        check_quickly(name, weight, shape, weight.dtype if autocast else input.dtype, input.device)
    for name, tensor in (("input", input), *(("hx", part) for part in hx or ())):
        check_quickly(name, tensor, tensor.shape, tensor.dtype if autocast else input.dtype, input.device)


#: Shapes that were asked for before. torch.compile warns of a cache that decorates a function.
_SHAPES: dict[tuple[int, ...], tuple[Shape, ...]] = {}


@constant_result
def weight_shapes(*sizes: int) -> tuple[Shape, ...]:
    """The shapes of torch.nn's weights, in the order of its list.

    Args:
        *sizes: The number of gates, input_size, hidden_size, proj_size, layers, bidirectional and bias.
    """
    found = _SHAPES.get(sizes)
    if found is None:
        found = _SHAPES[sizes] = _find_shapes(*sizes)
    return found


def _find_shapes(gates: int, input_size: int, hidden_size: int, proj_size: int, *others: int) -> tuple[Shape, ...]:
    layers, bidirectional, bias = others
    width = check_size("proj_size", proj_size, 0) or check_size("hidden_size", hidden_size)
    rows, directions = gates * hidden_size, 2 if bidirectional else 1
    shapes: list[Shape] = []
    for layer in range(layers):
        reads = directions * width if layer else check_size("input_size", input_size)
        biases = [(rows,)] * 2 if bias else []
        projections = [(width, hidden_size)] if proj_size else []
        shapes += [(rows, reads), (rows, width), *biases, *projections] * directions
    return tuple(map(torch.Size, shapes))


def check_packed(packed: PackedSequence) -> None:
    """A PackedSequence that was made by hand is one that torch could have made; torch's own code reads it unchecked."""
    if torch.compiler.is_compiling():
        return  # its numbers are not known yet
    data, batch_sizes, *orders = packed
    if not isinstance(data, Tensor):
        raise ArgumentTypeError.of("input.data", data, "is not a tensor", REPACK)
    check_viewable("input.data", data)
    sizes = _check_batch_sizes(batch_sizes, len(data))
    for name, order in zip(("input.sorted_indices", "input.unsorted_indices"), orders, strict=True):
        if order is not None:
            _check_order(name, order, sizes[0])


def _check_batch_sizes(batch_sizes: Any, rows: int) -> list[int]:
    """The batch sizes of all steps, which fit data of so many rows."""
    _check_integers("input.batch_sizes", batch_sizes, (torch.int64,))
    if batch_sizes.device.type != "cpu":
        raise DeviceError.of("input.batch_sizes", batch_sizes.device, "is not the CPU", REPACK)
    sizes: list[int] = batch_sizes.tolist()
    falling = all(after <= before for before, after in pairwise(sizes))
    if not sizes or not falling or sizes[-1] < 1 or sum(sizes) != rows:
        problem = f"are not positive numbers that never rise and sum to the {rows} rows of data"
        raise ShapeError.of("input.batch_sizes", sizes, problem, REPACK)
    return sizes


def _check_order(name: str, order: Any, rows: int) -> None:
    """`order` holds the number of every row of the batch once."""
    _check_integers(name, order, (torch.int64, torch.int32))
    if sorted(order.tolist()) != list(range(rows)):
        raise ShapeError.of(name, order.tolist(), f"are not the numbers from 0 to {rows - 1}, each once", REPACK)


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
    if input.dtype != weight.dtype and not is_autocast(weight.device):
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
        if hx is not None and (batch_sizes is not None or not fit_states(layer, input, hx)):
            layer.check_forward_args(input, hx if len(hx) > 1 else hx[0], batch_sizes)  # type: ignore[arg-type]
    except RuntimeError as error:
        raise ShapeError(f"{error}. Change its shape, or the layer's sizes.") from error


def fit_states(layer: nn.RNNBase, input: Tensor, hx: States) -> bool:
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
