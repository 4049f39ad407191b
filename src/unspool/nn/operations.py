"""The operations of the equations on torch tensors."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from torch.nn import functional

from unspool.cells.blocks import BLOCKS, expand_by


def _linear(operands: Sequence[Tensor], matrices: Sequence[Tensor], bias: Tensor | None) -> Tensor:
    total = functional.linear(operands[0], matrices[0], bias)
    for operand, matrix in zip(operands[1:], matrices[1:], strict=True):
        total = total + functional.linear(operand, matrix)
    return total


def _with_tensors(compute: Callable[[Tensor, Tensor], Tensor]) -> Callable[[Tensor | float, Tensor | float], Tensor]:
    """`compute`, which takes two tensors, also for one tensor and one number."""

    def either(a: Tensor | float, b: Tensor | float) -> Tensor:
        if isinstance(a, Tensor):
            return compute(a, torch.as_tensor(b, dtype=a.dtype, device=a.device))
        assert isinstance(b, Tensor)
        return compute(torch.as_tensor(a, dtype=b.dtype, device=b.device), b)

    return either


def _less(a: Tensor | float, b: Tensor | float) -> Tensor | bool:
    return a < b


def _less_equal(a: Tensor | float, b: Tensor | float) -> Tensor | bool:
    return a <= b


def _normalise(v: Tensor, epsilon: float) -> Tensor:
    centerd = v - v.mean(-1, keepdim=True)
    return centerd / torch.sqrt((centerd * centerd).mean(-1, keepdim=True) + epsilon)


OPERATIONS: dict[str, Callable[..., object]] = {
    "constant": lambda number, x: x.new_full((), number),
    "linear": _linear,
    "add": lambda a, b: a + b,
    "subtract": lambda a, b: a - b,
    "multiply": lambda a, b: a * b,
    "divide": lambda a, b: a / b,
    "negative": torch.neg,
    "sigmoid": torch.sigmoid,
    "tanh": torch.tanh,
    "relu": torch.relu,
    "exp": torch.exp,
    "log": torch.log,
    "sqrt": torch.sqrt,
    "absolute": torch.abs,
    "minimum": _with_tensors(torch.minimum),
    "maximum": _with_tensors(torch.maximum),
    "less": _less,
    "less_equal": _less_equal,
    "where": torch.where,
    "normalise": _normalise,
    "log1p": torch.log1p,
    "sin": torch.sin,
    "cos": torch.cos,
    "erf": torch.erf,
    "softplus": lambda v: -functional.logsigmoid(-v),  # torch's softplus is v from 20 on
    "softmax": lambda v: torch.softmax(v, -1),
    "max": lambda v: torch.amax(v, -1, keepdim=True),
    **BLOCKS,
    **expand_by(lambda v, shape: v.expand(shape)),
}
