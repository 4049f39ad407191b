"""Memoryless: the base of modules that read a sequence without a state, such as poolings and baselines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import torch
from torch import Tensor, nn

from unspool.cells.cell import check_size
from unspool.errors import DTypeError
from unspool.nn.checks import check_input, check_lengths
from unspool.nn.layer import from_time_major, to_time_major, valid_steps


class Memoryless(nn.Module):
    """A module called as `module(x, lengths=…)`.

    x is (time, batch, input_size), with `batch_first` (batch, time, input_size), or, unbatched, (time, input_size).
    Steps beyond the length of a sequence change nothing, whatever they hold.
    """

    #: Whether the output is one vector per step; else it is one per sequence.
    stepwise: ClassVar[bool] = False

    def __init__(self, input_size: int, output_size: int, batch_first: bool) -> None:
        super().__init__()
        self.input_size = check_size("input_size", input_size)
        self.output_size = check_size("output_size", output_size)
        self.batch_first = batch_first

    def forward(self, x: Tensor, *, lengths: Sequence[int] | Tensor | None = None) -> Tensor:
        """Read sequences.

        Args:
            x: Vectors, laid out as the class says.
            lengths: The steps of each sequence; None if all are full.

        Returns:
            One vector per sequence, or one per step if the class is `stepwise`.
        """
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
