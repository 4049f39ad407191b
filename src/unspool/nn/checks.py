"""Checks of a layer's arguments, before anything is computed."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import lru_cache
from numbers import Real
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import PackedSequence

from unspool.cells.numbers import is_whole
from unspool.errors import ArgumentError, ArgumentTypeError, DeviceError, DTypeError, ShapeError
from unspool.nn.route import PLAIN

Shape = tuple[int, ...]
ADDRESSES = 2**63 - 1  # what torch counts bytes with


def check_input(x: Any, input_size: int, like: Tensor | None) -> None:
    """x is a (time, batch, input_size) or (time, input_size) tensor of the layer's dtype, on its device."""
    if isinstance(x, PackedSequence):
        raise ArgumentTypeError(
            "`x` is a PackedSequence, and this layer takes padded batches. Unpack it by "
            "torch.nn.utils.rnn.pad_packed_sequence and give the lengths as `lengths=`."
        )
    if not isinstance(x, Tensor):
        raise ArgumentTypeError.of("x", x, "is not a torch tensor", "Convert it by torch.as_tensor")
    if x.dim() not in (2, 3):
        raise ShapeError.of(
            "x", tuple(x.shape), f"has {x.dim()} dimension(s)", "Give (time, batch, features) or (time, features)"
        )
    if x.shape[-1] != input_size:
        raise ShapeError.of(
            "x", tuple(x.shape), f"is {x.shape[-1]} wide where input_size is {input_size}", "Change one of the two"
        )
    check_like("x", x, x if like is None else like)


def check_like(name: str, value: Tensor, like: Tensor, whose: str = "the layer") -> None:
    """`value` is dense, has its memory, and the dtype (under autocast any floating-point one) and device of `like`."""
    if _is_like(value, like):
        return
    if value.device != like.device:
        raise DeviceError(
            f"`{name}` is on {value.device} where {whose} is on {like.device}. Move it by "
            f"{name}.to({str(like.device)!r}), or the layer by layer.to(device)."
        )
    mixed = is_autocast(value.device) and torch.float64 not in (value.dtype, like.dtype)  # which autocast leaves alone
    if not like.is_floating_point():  # a layer without parameters takes any real floating point
        raise DTypeError(f"`{name}` has dtype {value.dtype}. Give real numbers: {name}.float().")
    if not value.is_floating_point() or (value.dtype != like.dtype and not mixed):
        raise DTypeError(
            f"`{name}` has dtype {value.dtype} where {whose} has {like.dtype}. Convert it by "
            f"{name}.to({like.dtype}), or the layer by layer.to(dtype)."
        )
    check_viewable(name, value)


def _is_like(value: Tensor, like: Tensor) -> bool:
    """Whether a tensor needs no closer look; quicker than the rest of `check_like`, which says what is wrong."""
    if type(value) not in PLAIN or torch.compiler.is_compiling() or not (value.is_cpu and like.is_cpu):
        return False
    if value.dtype is not like.dtype or value.layout is not torch.strided or not value.is_floating_point():
        return False
    try:
        held = value.untyped_storage().nbytes() >= value.nbytes + value.storage_offset() * value.itemsize
    except (NotImplementedError, RuntimeError):  # under a function transform: torch looks after it
        return False
    return held and value.is_contiguous()


def check_viewable(name: str, value: Tensor) -> None:
    """`value` is dense and has its memory: torch makes views of no others, or not in every mode."""
    check_dense(name, value)
    check_memory(name, value)


def check_dense(name: str, value: Tensor) -> None:
    """Refuse a sparse tensor."""
    if value.layout != torch.strided:
        raise ArgumentError(f"`{name}` is of layout {value.layout}. Give dense numbers: {name}.to_dense().")


def is_autocast(device: torch.device) -> bool:
    """Whether operations on this device choose their dtype."""
    return torch.amp.is_autocast_available(device.type) and torch.is_autocast_enabled(device.type)


def check_shape(name: str, tensor: Any, shape: Shape) -> None:
    if not isinstance(tensor, Tensor):
        raise ArgumentTypeError.of(name, tensor, "is not a tensor", "Give the layer all its parameters and states")
    if tensor.shape != shape:
        got = tuple(tensor.shape)
        raise ShapeError.of(name, got, f"is not of shape {tuple(shape)}", "Make a layer of these sizes")


def check_memory(name: str, tensor: Tensor) -> None:
    """Refuse a tensor that reaches beyond its storage, as after `storage.resize_(0)`."""
    if not has_memory(tensor):
        raise ArgumentError.of(
            name,
            tuple(tensor.shape),
            "has no memory: its storage was freed or made smaller",
            "Give a tensor whose storage is there",
        )


def has_memory(tensor: Tensor) -> bool:
    """Whether the storage of a tensor holds all its numbers; true for one that has no storage of its own."""
    if torch.compiler.is_compiling() or type(tensor) not in PLAIN or not tensor.numel() or tensor._is_zerotensor():
        return True
    try:
        there = tensor.untyped_storage().nbytes()
    except (NotImplementedError, RuntimeError):  # sparse, or under a function transform: torch looks after it
        return True
    last = tensor.storage_offset()
    last += sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return bool(there >= (last + 1) * tensor.element_size())


def check_lengths(
    lengths: Sequence[int] | Tensor, steps: int, rows: int, device: torch.device, name: str = "lengths"
) -> Tensor:
    """`lengths` as an integer tensor on `device`: one number per sequence, from 0 to the number of steps."""
    ends = _as_integers(name, lengths)
    if ends.shape != (rows,):
        problem = f"are not {rows} numbers, one per sequence of the batch"
        raise ShapeError.of(name, lengths, problem, "Give one per sequence")
    if torch.compiler.is_compiling():  # the numbers are not known yet; the operator checks them
        return ends.to(device, torch.int64)
    if not all(0 <= end <= steps for end in ends.tolist()):
        raise ArgumentError.of(name, lengths, f"are not all from 0 to {steps}", "x has that many steps; pad it")
    return ends.to(device, torch.int64)


def _as_integers(name: str, lengths: Sequence[int] | Tensor) -> Tensor:
    try:
        ends = torch.as_tensor(lengths)
    except (TypeError, ValueError, RuntimeError, OverflowError) as error:
        raise ArgumentTypeError.of(name, lengths, f"are not numbers: {error}", "Give a list of int") from error
    if ends.layout != torch.strided or ends.is_meta:
        where = f"{ends.layout} on {ends.device}"
        raise ArgumentError.of(name, where, "are not numbers in memory", "Give a list of int, or a dense tensor")
    check_memory(name, ends)
    if ends.numel() == 0:
        ends = ends.long()  # an empty list has no dtype of its own
    if not has_whole_numbers(ends):
        raise DTypeError.of(name, lengths, f"are of dtype {ends.dtype}", "Give whole numbers")
    return ends


def has_whole_numbers(tensor: Tensor) -> bool:
    """Whether the dtype of a tensor is one of integers; that of true and false is not."""
    return not (tensor.is_floating_point() or tensor.is_complex() or tensor.dtype == torch.bool)


def check_state(state: Any, expected: Any, like: Tensor | None, name: str = "state") -> None:
    """`state` has the nesting of `expected`, whose leaves are the shapes of the tensors."""
    if isinstance(expected, torch.Size):
        _check_one_state(state, expected, like, name)
        return
    if not is_row_of(len(expected), state):
        raise ShapeError(
            f"`{name}` must be a tuple of {len(expected)} states, got {say_how_many(state)}. Nest them as the layer "
            "returns them."
        )
    for position, (part, shape) in enumerate(zip(state, expected, strict=True)):
        check_state(part, shape, like, f"{name}[{position}]")


def _check_one_state(state: Any, expected: torch.Size, like: Tensor | None, name: str) -> None:
    if not isinstance(state, Tensor):
        raise ArgumentTypeError.of(name, state, "is not a tensor", f"Give a tensor of shape {tuple(expected)}")
    if state.shape != expected:
        raise ShapeError.of(name, tuple(state.shape), f"is not of shape {tuple(expected)}", "Reshape it")
    if like is not None:
        check_like(name, state, like)


def is_row_of(count: int, state: Any) -> bool:
    """Whether a state is a tuple or list of so many parts."""
    return isinstance(state, tuple | list) and len(state) == count


def say_how_many(state: Any) -> str:
    """What was given in place of a tuple of states, for a message."""
    return f"{len(state)} of them" if isinstance(state, tuple | list) else type(state).__name__


def check_recompute(recompute: int | str | None) -> int | str | None:
    """None, "sqrt", or a number of steps of at least one."""
    if recompute is None or recompute == "sqrt" or (is_whole(recompute) and recompute > 0):
        return recompute
    raise ArgumentError.of(
        "recompute", recompute, "is neither a number of steps nor 'sqrt'", "Give how many steps lie between kept states"
    )


def check_flag(name: str, value: Any) -> bool:
    """True or False, also as 1 or 0."""
    if not isinstance(value, int) or value not in (0, 1):
        raise ArgumentTypeError.of(name, value, "is neither True nor False", "Give one of the two")
    return bool(value)


def check_probability(name: str, p: Any) -> None:
    """A number from 0 to 1."""
    if isinstance(p, bool) or not isinstance(p, Real) or not 0 <= float(p) <= 1:
        raise ArgumentError.of(name, p, "is not a probability", "Give a number from 0 to 1")


def check_room(name: str, value: object, count: int, like: Tensor) -> None:
    """So many numbers of the dtype of `like` fit in the memory of its device, as far as that is known.

    Args:
        name: of the argument that asks for them.
        value: of that argument.
        count: how many numbers.
        like: a tensor of their dtype, on their device.
    """
    needed = count * like.element_size()
    room = machine_memory() if like.device.type == "cpu" else ADDRESSES
    if needed > room:
        said = f"{needed / 2**30:,.1f} GiB of memory" if needed < 2**80 else "more memory than any machine has"
        raise ArgumentError.of(name, value, f"needs {said}; there are {room / 2**30:,.1f} GiB", "Make it smaller")


@lru_cache
def machine_memory() -> int:
    """The bytes of this machine's memory; as many as can be counted where it does not say."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return ADDRESSES
