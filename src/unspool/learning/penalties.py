"""Penalties on what a recurrent layer gives: for being large (AR) and for changing fast (TAR)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from torch import Tensor

from unspool.cells.cell import check_size
from unspool.errors import ArgumentError, ArgumentTypeError, DTypeError, ShapeError
from unspool.learning.contract import Outcome
from unspool.learning.settings import Training
from unspool.nn.checks import check_lengths
from unspool.nn.layer import valid_steps


def activation_penalty(
    output: Tensor, weight: float, *, time: int = 0, lengths: Sequence[int] | Tensor | None = None
) -> Tensor:
    """AR: weight · mean(output_t²), over all rows, units and steps t; 0 if there are none.

    `output` is laid out as a layer's: (time, batch, width), with `time=1` (batch, time, width), or, unbatched,
    (time, width). Steps beyond a row's length, `lengths`, count in no way, whatever stands there.
    """
    output, inside = _lay_out(output, weight, time, lengths)
    return weight * _mean_square(output, inside)


def temporal_penalty(
    output: Tensor, weight: float, *, time: int = 0, lengths: Sequence[int] | Tensor | None = None
) -> Tensor:
    """TAR: weight · mean((output_t − output_{t−1})²), over all rows, units and steps t > 0; 0 if there are none.

    The layout and `lengths` are those of `activation_penalty`: both steps must lie within the row.
    """
    output, inside = _lay_out(output, weight, time, lengths)
    return weight * _mean_square(output[1:] - output[:-1], None if inside is None else inside[1:])


def with_penalties(outcome: Outcome, settings: Training) -> Tensor:
    """What training makes small: the loss, what the model adds to it itself, and the penalties of the settings."""
    loss = outcome.loss if outcome.extra is None else outcome.loss + outcome.extra
    if outcome.output is not None and settings.activation_penalty:
        loss = loss + activation_penalty(outcome.output, settings.activation_penalty, lengths=outcome.lengths)
    if outcome.output is not None and settings.temporal_penalty:
        loss = loss + temporal_penalty(outcome.output, settings.temporal_penalty, lengths=outcome.lengths)
    return loss


def _mean_square(values: Tensor, inside: Tensor | None) -> Tensor:
    if inside is not None:  # left out, not multiplied by 0: 0·∞ is NaN
        values = values[inside]
    return values.square().mean() if values.numel() else values.sum()


def _lay_out(
    output: Any, weight: Any, time: Any, lengths: Sequence[int] | Tensor | None
) -> tuple[Tensor, Tensor | None]:
    """The output with time in front, and which of its (time, batch) lie within the lengths."""
    number = isinstance(weight, int | float) and not isinstance(weight, bool)
    if not number or not 0 <= weight < math.inf:
        raise ArgumentError.of("weight", weight, "is not a number from 0 on", "Give 0 for no penalty")
    if not isinstance(output, Tensor):
        raise ArgumentTypeError.of("output", output, "is not a torch tensor", "Give what the layer returned first")
    if not output.is_floating_point():
        raise DTypeError.of("output", output.dtype, "is not a floating dtype", "Give what the layer returned first")
    if output.dim() <= check_size("time", time, least=0):
        problem = f"has no axis {time}, which is time's"
        raise ShapeError.of("output", tuple(output.shape), problem, "Give `time`, the position of that axis")
    output = output.movedim(time, 0)
    if lengths is None:
        return output, None
    if output.dim() < 2:
        raise ShapeError.of("output", tuple(output.shape), "has no rows for `lengths`", "Give (time, batch, width)")
    if output.dim() == 2:
        output = output.unsqueeze(1)
    steps, rows = output.shape[:2]
    return output, valid_steps(check_lengths(lengths, steps, rows, output.device), steps).squeeze(-1)
