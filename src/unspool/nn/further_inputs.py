"""What a cell reads besides x, such as the time since the last step: it goes beside x, in one tensor."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from unspool.cells.equations import Equations
from unspool.errors import ArgumentError, ArgumentTypeError
from unspool.nn.checks import check_like, check_shape


def join_inputs(equations: Equations, x: Tensor, inputs: Mapping[str, Tensor], batch_first: bool) -> Tensor:
    """x (time, batch, input_size) with the further inputs beside it, in the order of the cell.

    Args:
        equations: the cell's.
        x: the input, checked.
        inputs: the others by name, laid out as the layer is given them.
        batch_first: whether their first dimension is the batch.

    Returns:
        One tensor (time, batch, all widths).
    """
    missing, unknown = set(equations.inputs) - set(inputs), set(inputs) - set(equations.inputs)
    if missing or unknown:
        wanted = ", ".join(f"{name}=…" for name in equations.inputs)
        remedy = f"Call layer(x, {wanted})" if wanted else "Leave them out"
        given = ", ".join(inputs) or "none"
        raise ArgumentError.of("inputs", given, f"are not those that {equations.title} reads besides x", remedy)
    parts = [x]
    for name, width in equations.inputs.items():
        shape = (*x.shape[:2], equations.size(width, x.shape[2], 0))
        parts.append(_laid_out(name, inputs[name], shape, batch_first, x))
    return torch.cat(parts, 2)


def _laid_out(name: str, value: Tensor, shape: tuple[int, int, int], batch_first: bool, x: Tensor) -> Tensor:
    """A further input as (time, batch, width)."""
    if not isinstance(value, Tensor):
        raise ArgumentTypeError.of(name, value, "is not a tensor", "Give one laid out as x")
    steps, rows, width = shape
    if value.dim() == 2 and rows == 1 and value.shape == (steps, width):  # a sequence without a batch
        value = value.unsqueeze(1)
    elif value.dim() == 1 and width == 1:
        value = value.reshape(-1, 1, 1)
    else:
        value = value.unsqueeze(-1) if value.dim() == 2 and width == 1 else value
        value = value.transpose(0, 1) if batch_first and value.dim() == 3 else value
    check_shape(name, value, shape)
    check_like(name, value, x, "x")
    return value
