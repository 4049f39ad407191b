"""The kernels as operators of torch (schema, fake, autograd), for torch.compile and torch.export.

The operator carries its cell as JSON, so that an exported program needs nothing but this package to run.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from unspool.cells import document
from unspool.nn.recurrence import Job, Recurrence


@lru_cache(maxsize=256)
def _recurrence(cell: str, input_size: int, hidden_size: int) -> Recurrence:
    return Recurrence(document.load(cell), input_size, hidden_size)


def _job(cell: str, hidden_size: int, x: Tensor, lengths: Tensor | None, reverse: bool) -> Job:
    return _recurrence(cell, x.shape[2], hidden_size).job(x, lengths, reverse)


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
    job = _job(cell, hidden_size, x, lengths, reverse)
    output, final, tape = job.forward([x, *states, *parameters], keep=keep, clean=lengths is not None)
    return [output, *final, tape if keep else x.new_empty(0)]


@recurrence.register_fake
def _fake(cell: str, hidden_size: int, x: Tensor, states: list[Tensor], *rest: Any) -> list[Tensor]:
    keep = rest[-1]
    steps, rows, _ = x.shape
    record = _recurrence(cell, int(x.shape[2]), hidden_size).record if keep else 0
    output = x.new_empty(steps, rows, states[0].shape[1])
    return [output, *(torch.empty_like(state) for state in states), x.new_empty(steps * rows * record)]


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
    job = _job(cell, hidden_size, x, lengths, reverse)
    found = job.backward([x, *states, *parameters], output, tape, gradients, wants_x=True)
    return [gradient for gradient in found if gradient is not None]


@recurrence_backward.register_fake
def _fake_backward(
    _cell: str, _hidden_size: int, x: Tensor, states: list[Tensor], parameters: list[Tensor], *_rest: Any
) -> list[Tensor]:
    return [torch.empty_like(tensor, memory_format=torch.contiguous_format) for tensor in (x, *states, *parameters)]


def _save(ctx: Any, inputs: tuple[Any, ...], output: list[Tensor]) -> None:
    cell, hidden_size, x, states, parameters, lengths, reverse, _keep = inputs
    ctx.constants = cell, hidden_size, len(states), reverse
    ctx.lengths = lengths
    ctx.save_for_backward(x, *states, *parameters, output[0], output[-1])


def _backward(ctx: Any, gradients: list[Tensor | None]) -> tuple[Any, ...]:
    cell, hidden_size, count, reverse = ctx.constants
    x, *rest, output, tape = ctx.saved_tensors
    states, parameters = rest[:count], rest[count:]
    like = [output, *states]
    whole = [torch.zeros_like(t) if g is None else g for g, t in zip(gradients[:-1], like, strict=True)]
    d_x, *found = recurrence_backward(
        cell, hidden_size, x, states, parameters, ctx.lengths, reverse, output, tape, whole
    )
    return None, None, d_x, found[:count], found[count:], None, None, None


recurrence.register_autograd(_backward, setup_context=_save)
