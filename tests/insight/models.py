"""Small float64 models of every cell, with stacks and both directions, and the loss that tests look into."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from tests.variants import LENGTHS, STEPS, VARIANTS, each_cell, sizes
from torch import Tensor, nn

from unspool.cells import Cell
from unspool.cells.linear_attention import LinearAttention
from unspool.insight.recording import Recording, record
from unspool.nn import Stack

#: For tests of measures that take samples of wide states: cells with a matrix per head, in their own size.
each_wide_cell = pytest.mark.parametrize(
    "cell",
    [
        pytest.param(cell, id=name, marks=pytest.mark.long)
        for name, cell in VARIANTS.items()
        if isinstance(cell, LinearAttention)
    ],
)


def each_stack(test: Callable[..., None]) -> Callable[..., None]:
    """Runs a test on every cell, as one layer and as two, ahead and in both directions."""
    sides = pytest.mark.parametrize("both", [False, True], ids=["ahead", "both"])(test)
    stacked: Callable[..., None] = each_cell(pytest.mark.parametrize("layers", [1, 2])(sides))
    return stacked


def small_stack(cell: Cell, layers: int = 1, both: bool = False, **options: Any) -> Stack:
    """Layers with weights that matter, the same at every call."""
    if isinstance(cell, LinearAttention):
        # Of the thousand numbers of its own state some measures take samples: their tests look at that size apart.
        cell = type(cell)(heads=2, size=3)
    return stack_of(cell, layers, both, **options)


def stack_of(cell: Cell, layers: int = 1, both: bool = False, **options: Any) -> Stack:
    """The same of a cell as it is."""
    torch.manual_seed(7)
    size, hidden = sizes(cell)
    if cell.input_width == "hidden" and both and layers > 1:
        hidden_sizes: Any = [hidden * 2**level for level in range(layers)]
    else:
        hidden_sizes = hidden
    stack = Stack(cell, size, hidden_sizes, layers, bidirectional=both, dtype=torch.float64, **options)
    with torch.no_grad():
        for parameter in stack.parameters():
            parameter.mul_(1.5)
    return stack


def small_input(cell: Cell, steps: int = STEPS, rows: int = len(LENGTHS)) -> Tensor:
    return torch.randn(steps, rows, sizes(cell)[0], dtype=torch.float64, generator=torch.Generator().manual_seed(1))


def recorded(model: nn.Module, x: Tensor, lengths: Any = None) -> Recording:
    """A recording of the model on x, with a loss at every step."""
    options = {} if lengths is None else {"lengths": lengths}
    return record(model, lambda model: loss_of(model(x, **options)[0]))


def loss_of(output: Tensor) -> Tensor:
    """A loss at every step, none like another."""
    weights = torch.linspace(0.5, 1.5, output.numel(), dtype=output.dtype).reshape(output.shape)
    return (weights * output.sin()).sum()


class Wired(nn.Module):
    """Two stacks of torch.nn and of ours with something between them that mixes steps; a user's model."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.below = nn.LSTM(3, 4, num_layers=2, bidirectional=True, dtype=torch.float64)
        self.between = nn.Linear(8, 5, dtype=torch.float64)
        self.above = nn.GRU(5, 4, dtype=torch.float64)

    def forward(self, x: Tensor) -> Tensor:
        middle, (h, _) = self.below(x)
        mixed = torch.tanh(self.between(middle)) + self.between(middle).roll(1, 0)
        output: Tensor = self.above(mixed, h[:1].contiguous())[0]
        return output
