"""The runners of drop-ins, shared by all layers of the same kind and sizes, and what torch.compile may know of them."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from unspool.cells import Cell
from unspool.nn.compiling import constant_result
from unspool.nn.route import choose_route_in_graph
from unspool.nn.runner import Runner
from unspool.nn.torch_layout import TorchLayout

#: A cell's class and the options that make it.
Kind = tuple[Callable[..., Cell], tuple[tuple[str, Any], ...]]


@lru_cache
def find_runner(kind: Kind, bias: bool, gates: tuple[str, ...], input_size: int, hidden_size: int) -> Runner:
    """The runner of one layer in one direction."""
    cell, options = kind
    equations = cell(**dict(options)).equations(bias)
    return Runner(equations, input_size, hidden_size, TorchLayout(equations, gates, input_size, hidden_size))


# torch.compile cannot trace how a runner is made, nor hold one as a constant. These tell it what it needs to know.


@constant_result
def can_build(dtype: torch.dtype, *made_of: Any) -> bool:
    """Whether there is a kernel for this dtype."""
    return find_runner(*made_of).kernel.can_build(dtype)


@constant_result
def find_constants(*made_of: Any) -> tuple[str, tuple[str, ...], tuple[int, ...]]:
    """The cell as JSON, the parameters of its equations, and the widths of its states."""
    runner = find_runner(*made_of)
    return runner.document, tuple(runner.equations.parameters), tuple(runner.widths)


def is_operator(x: Tensor, trace: bool, made_of: tuple[Any, ...]) -> bool:
    """Whether a call that torch compiles is one operator in its graph."""
    return choose_route_in_graph(x, trace, lambda dtype: can_build(dtype, *made_of)).name == "operator"
