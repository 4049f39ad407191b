"""Baselines without memory: what can be read from a sequence without carrying a state through it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from unspool.cells.cell import check_size
from unspool.errors import DTypeError
from unspool.nn.checks import check_input, check_lengths
from unspool.nn.layer import from_time_major, to_time_major, valid_steps


class Memoryless(nn.Module):
    """A module called as `baseline(x, lengths=…)`.

    x is (time, batch, input_size), with `batch_first` (batch, time, input_size), or, unbatched, (time, input_size).
    Steps beyond a row's length change nothing, whatever they hold.
    """

    #: Whether the output is a vector a step; else it is one a row.
    stepwise: ClassVar[bool] = False

    def __init__(self, input_size: int, output_size: int, batch_first: bool) -> None:
        super().__init__()
        self.input_size = check_size("input_size", input_size)
        self.output_size = check_size("output_size", output_size)
        self.batch_first = batch_first

    def forward(self, x: Tensor, *, lengths: Sequence[int] | Tensor | None = None) -> Tensor:
        check_input(x, self.input_size, next(self.parameters(), None))
        if not x.is_floating_point():
            raise DTypeError(f"`x` has dtype {x.dtype}. Give vectors, such as an embedding's, in a floating dtype.")
        batched = x.dim() == 3
        x = to_time_major(x, self.batch_first)
        steps, rows, _ = x.shape
        ends = torch.full((rows,), steps, device=x.device)
        if lengths is not None:
            ends = check_lengths(lengths, steps, rows, x.device)
        valid = valid_steps(ends, steps)
        output = self.read(x.masked_fill(~valid, 0.0), valid)
        if self.stepwise:
            return from_time_major(output, batched, self.batch_first)
        return output if batched else output.squeeze(0)

    def read(self, x: Tensor, valid: Tensor) -> Tensor:
        """The output for checked, batched, time-major x, zero where `valid` (time, batch, 1) is not."""
        raise NotImplementedError


class BagOfVectors(Memoryless):
    """Σ_t x_t, or their `mean`: (batch, input_size). A sentence is the words it has, in any order."""

    def __init__(self, input_size: int, mean: bool = False, *, batch_first: bool = False) -> None:
        super().__init__(input_size, input_size, batch_first)
        self.mean = mean

    def read(self, x: Tensor, valid: Tensor) -> Tensor:
        total = x.sum(0)
        return total / valid.sum(0).clamp_min(1) if self.mean else total

    def extra_repr(self) -> str:
        return f"{self.input_size}, mean={self.mean}"


class SharedFCN(Memoryless):
    """Σ_t f(x_t) with one two-layer network f for every step: (batch, output_size). As blind to order as a bag."""

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        output_size: int,
        *,
        batch_first: bool = False,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(input_size, output_size, batch_first)
        self.network = _perceptron(input_size, hidden_size, output_size, device, dtype)

    def read(self, x: Tensor, valid: Tensor) -> Tensor:
        return _rest(self.network(x), valid).sum(0)


class StatelessMLP(Memoryless):
    """f(x_t) at every step, by one two-layer network f: (time, batch, output_size). It knows the present only."""

    stepwise = True

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        output_size: int,
        *,
        batch_first: bool = False,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(input_size, output_size, batch_first)
        self.network = _perceptron(input_size, hidden_size, output_size, device, dtype)

    def read(self, x: Tensor, valid: Tensor) -> Tensor:
        return _rest(self.network(x), valid)


class Convolution(Memoryless):
    """max_t relu(Σ_j W_j x_{t−j} + b) over windows of `kernel_size` steps: (batch, channels).

    It sees order within a window and none beyond. Before the first step stand zeros, so that rows shorter than a
    window can be read; a row without steps gives zeros.
    """

    def __init__(
        self,
        input_size: int,
        channels: int,
        kernel_size: int,
        *,
        batch_first: bool = False,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(input_size, check_size("channels", channels), batch_first)
        self.kernel_size = check_size("kernel_size", kernel_size)
        self.convolution = nn.Conv1d(input_size, channels, kernel_size, device=device, dtype=dtype)

    def read(self, x: Tensor, valid: Tensor) -> Tensor:
        steps, rows, _ = x.shape
        if not steps or not rows:
            return x.new_zeros(rows, self.output_size)
        windows = functional.pad(x.permute(1, 2, 0), (self.kernel_size - 1, 0))
        values = torch.relu(self.convolution(windows)).permute(2, 0, 1)
        return _rest(values, valid).amax(0)  # relu is nowhere below the padding's zeros


def _perceptron(
    input_size: int,
    hidden_size: int,
    output_size: int,
    device: torch.device | str | None,
    dtype: torch.dtype | None,
) -> nn.Sequential:
    check_size("hidden_size", hidden_size)
    return nn.Sequential(
        nn.Linear(input_size, hidden_size, device=device, dtype=dtype),
        nn.Tanh(),
        nn.Linear(hidden_size, output_size, device=device, dtype=dtype),
    )


def _rest(values: Tensor, valid: Tensor) -> Tensor:
    """`values`, zero beyond each row's length."""
    return values.masked_fill(~valid, 0.0)
