"""The kernels as operators of torch (schema, fake, autograd), for torch.compile and torch.export.

The operator carries its cell as JSON, so that an exported program needs nothing but this package to run. Such a program
may have been edited since: all arguments of the operators are checked before a kernel sees their addresses.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from unspool.cells import document
from unspool.cells.cell import check_size
from unspool.errors import ArgumentError, DTypeError, ShapeError
from unspool.nn.boundary import check_tensor
from unspool.nn.checks import check_lengths
from unspool.nn.kernel_call import KernelCall
from unspool.nn.recording import refuse
from unspool.nn.route import has_kernels
from unspool.nn.runner import Runner


@lru_cache(maxsize=256)
def _runner(cell: str, x_size: int, hidden_size: int) -> Runner:
    equations = document.load(cell)
    input_size = equations.input_size_of(x_size, check_size("hidden_size", hidden_size))
    return Runner(equations, check_size("input_size", input_size), hidden_size)


def _call(
    cell: str,
    hidden_size: int,
    x: Tensor,
    states: list[Tensor],
    parameters: list[Tensor],
    lengths: Tensor | None,
    reverse: bool,
) -> KernelCall:
    """A call of the kernel that fits these arguments, which are checked."""
    _check_x(x)
    steps, rows, x_size = x.shape
    runner = _runner(cell, x_size, hidden_size)
    check_tensors("x", [x], [(steps, rows, runner.boundary.input_width)], x)
    check_tensors("states", states, [(rows, width) for width in runner.widths], x)
    check_tensors("parameters", parameters, list(runner.equations.shapes(*runner.sizes).values()), x)
    ends = None if lengths is None else check_lengths(lengths, steps, rows, x.device)
    return runner.call(x, ends, reverse)


def _check_x(x: Tensor) -> None:
    if x.dim() != 3 or not x.shape[2]:
        raise ShapeError.of("x", tuple(x.shape), "is not (time, batch, features)", "Reshape it")
    if not has_kernels(x):
        found = f"{x.dtype} on {x.device}"
        raise DTypeError.of("x", found, "has no kernel", "Give float32 or float64 on the CPU")


def check_tensors(name: str, tensors: Sequence[Tensor], shapes: Sequence[tuple[int, ...]], like: Tensor) -> None:
    """One tensor per shape, each of the dtype and on the device of `like`, with its own memory."""
    if len(tensors) != len(shapes):
        raise ShapeError.of(name, len(tensors), f"are not {len(shapes)} tensors", "Give as many as the cell has")
    for place, (tensor, shape) in enumerate(zip(tensors, shapes, strict=True)):
        part = f"{name}[{place}]" if len(shapes) > 1 else name
        check_tensor(part, tensor, shape, like.dtype, like.device)


def _copy(tensor: Tensor) -> Tensor:
    return tensor.clone(memory_format=torch.contiguous_format)


@torch.library.custom_op("unspool::recurrence", mutates_args=())
def recurrence(
    cell: str,
    hidden_size: int,
    x: Tensor,
    states: list[Tensor],
    parameters: list[Tensor],
    lengths: Tensor | None,
    reverse: bool,
    keep: bool,
) -> list[Tensor]:
    """Output, final states and tape (empty unless `keep`) of a cell over time."""
    call = _call(cell, hidden_size, x, states, parameters, lengths, reverse)
    if not x.numel():
        return [x.new_empty(*x.shape[:2], states[0].shape[1]), *map(_copy, states), x.new_empty(0)]
    output, final, kept = call.forward([x, *states, *parameters], keep=keep, clean=lengths is not None)
    return [output, *final, *(kept or (x.new_empty(0),))]


@recurrence.register_fake
def _fake(cell: str, hidden_size: int, x: Tensor, states: list[Tensor], *rest: Any) -> list[Tensor]:
    keep = rest[-1]
    steps, rows, _ = x.shape
    runner = _runner(cell, int(x.shape[2]), hidden_size)
    if torch.onnx.is_in_onnx_export():  # where torch's compiler traces the layer, it could not know
        raise refuse(runner.equations.title)
    record = runner.record if keep else 0
    output = x.new_empty(steps, rows, states[0].shape[1])
    return [output, *(state.new_empty(state.shape) for state in states), x.new_empty(steps * rows * record)]


@torch.library.custom_op("unspool::recurrence_backward", mutates_args=())
def recurrence_backward(
    cell: str,
    hidden_size: int,
    x: Tensor,
    states: list[Tensor],
    parameters: list[Tensor],
    lengths: Tensor | None,
    reverse: bool,
    output: Tensor,
    tape: Tensor,
    gradients: list[Tensor],
) -> list[Tensor]:
    """Gradients of x, the states and the parameters."""
    call = _call(cell, hidden_size, x, states, parameters, lengths, reverse)
    steps, rows, input_size = x.shape
    record = _runner(cell, input_size, hidden_size).record
    results = [(steps, rows, states[0].shape[1]), *(tuple(state.shape) for state in states)]
    check_tensors("output", [output], results[:1], x)
    if record:
        check_tensors("tape", [tape], [(steps * rows * record,)], x)
    check_tensors("gradients", gradients, results, x)
    if not x.numel():
        return [x.new_zeros(x.shape), *map(_copy, gradients[1:]), *(p.new_zeros(p.shape) for p in parameters)]
    output, tape = output.contiguous(), tape.contiguous()
    found = call.backward([x, *states, *parameters], output, [tape], gradients, wants_x=True)
    return [gradient for gradient in found if gradient is not None]


@recurrence_backward.register_fake
def _fake_backward(
    _cell: str, _hidden_size: int, x: Tensor, states: list[Tensor], parameters: list[Tensor], *_rest: Any
) -> list[Tensor]:
    return [tensor.new_empty(tensor.shape) for tensor in (x, *states, *parameters)]


def _save(ctx: Any, inputs: tuple[Any, ...], output: list[Tensor]) -> None:
    cell, hidden_size, x, states, parameters, lengths, reverse, keep = inputs
    ctx.constants = cell, hidden_size, len(states), reverse, keep
    ctx.save_for_backward(lengths, x, *states, *parameters, output[0], output[-1])


def _backward(ctx: Any, gradients: list[Tensor | None]) -> tuple[Any, ...]:
    cell, hidden_size, count, reverse, keep = ctx.constants
    if not keep:
        raise ArgumentError("the recurrence was compiled or exported without gradients. Enable them and do it again.")
    lengths, x, *rest, output, tape = ctx.saved_tensors
    states, parameters = rest[:count], rest[count:]
    like = [output, *states]
    whole = [torch.zeros_like(t) if g is None else g for g, t in zip(gradients[:-1], like, strict=True)]
    d_x, *found = recurrence_backward(cell, hidden_size, x, states, parameters, lengths, reverse, output, tape, whole)
    return None, None, d_x, found[:count], found[count:], None, None, None


recurrence.register_autograd(_backward, setup_context=_save)
