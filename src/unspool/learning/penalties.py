"""What training minimizes: the loss and penalties on the output of recurrent layers, for being large (AR) and for
changing fast (TAR).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from torch import Tensor

from unspool.cells.cell import check_size
from unspool.cells.numbers import is_number
from unspool.errors import ArgumentError, ArgumentTypeError, DTypeError, ShapeError
from unspool.nn.checks import check_lengths
from unspool.nn.layer import valid_steps

if TYPE_CHECKING:
    from unspool.learning.contract import Outcome
    from unspool.settings.training import Training


def activation_penalty(
    output: Tensor, weight: float, *, time: int = 0, lengths: Sequence[int] | Tensor | None = None
) -> Tensor:
    """Activation regularization (AR): weight · mean(output_t²), over all sequences, units and steps t.

    Args:
        output: Of a layer: (time, batch, width), with `time=1` (batch, time, width), or, unbatched, (time, width).
        weight: The factor, from 0.
        time: The time axis.
        lengths: Of the sequences; what is beyond them does not count, whatever it is.

    Returns:
        The penalty, to be added to the loss; 0 if there are no steps.

    Example:
        output, state = lstm(x)
        loss = loss + activation_penalty(output, 2.0) + temporal_penalty(output, 1.0)
    """
    output, inside = _lay_out(output, weight, time, lengths)
    return weight * _mean_square(output, inside)


def temporal_penalty(
    output: Tensor, weight: float, *, time: int = 0, lengths: Sequence[int] | Tensor | None = None
) -> Tensor:
    """Temporal activation regularization (TAR): weight · mean((output_t − output_{t−1})²), over all t > 0.

    Args:
        output: As in `activation_penalty`.
        weight: The factor, from 0.
        time: The time axis.
        lengths: Of the sequences; both steps of a difference must lie within them.

    Returns:
        The penalty, to be added to the loss; 0 if there are no differences.

    Example:
        output, state = lstm(x, lengths=lengths)
        loss = loss + temporal_penalty(output, 1.0, lengths=lengths)
    """
    output, inside = _lay_out(output, weight, time, lengths)
    return weight * _mean_square(output[1:] - output[:-1], None if inside is None else inside[1:])


def objective(outcome: Outcome, settings: Training) -> Tensor:
    """What training minimizes: the loss, what the model itself adds to it, and the penalties of the settings.

    All of these are means over steps. With `loss_reduction="sum-over-time"` they are sums over the steps of the window
    instead, so that the weight of a penalty means the same in both.

    Args:
        outcome: Of a batch.
        settings: Weights of the penalties, and the reduction.

    Returns:
        A number to differentiate.

    Example:
        objective(model(batch, state), Training(activation_penalty=2.0)).backward()
    """
    loss = outcome.loss if outcome.extra is None else outcome.loss + outcome.extra
    of_steps, of_changes = _shares(outcome)
    if outcome.output is not None and settings.activation_penalty:
        weight = of_steps * settings.activation_penalty
        loss = loss + activation_penalty(outcome.output, weight, lengths=outcome.lengths)
    if outcome.output is not None and settings.temporal_penalty:
        weight = of_changes * settings.temporal_penalty
        loss = loss + temporal_penalty(outcome.output, weight, lengths=outcome.lengths)
    if settings.loss_reduction == "sum-over-time":
        assert outcome.output is not None  # that of a language model, which alone has this setting
        loss = len(outcome.output) * loss
    return loss


def _shares(outcome: Outcome) -> tuple[float, float]:
    """How much means over the steps, and over the changes between them, count where processes share a batch.

    A process has more steps than the others if its sequences are longer. Sequences are as many in each, and a sequence
    has one change fewer than it has steps.
    """
    if outcome.steps is None or outcome.lengths is None:
        return 1.0, 1.0
    own, changes = float(outcome.lengths.sum()), outcome.steps - len(outcome.lengths)
    return own / outcome.steps, (own - len(outcome.lengths)) / changes if changes else 1.0


def _mean_square(values: Tensor, inside: Tensor | None) -> Tensor:
    if inside is not None:  # left out, not multiplied by 0: 0·∞ is NaN
        values = values[inside]
    return values.square().mean() if values.numel() else values.sum()


def _lay_out(
    output: Any, weight: Any, time: Any, lengths: Sequence[int] | Tensor | None
) -> tuple[Tensor, Tensor | None]:
    """The output with time in front, and which of its (time, batch) lie within the lengths."""
    if not is_number(weight) or not 0 <= weight < math.inf:
        raise ArgumentError.of("weight", weight, "is not a number from 0", "Give 0 for no penalty")
    _check_output(output, time)
    output = output.movedim(time, 0)
    if lengths is None:
        return output, None
    if output.dim() < 2:
        raise ShapeError.of(
            "output", tuple(output.shape), "has no batch axis for `lengths`", "Give (time, batch, width)"
        )
    if output.dim() == 2:
        output = output.unsqueeze(1)
    steps, batch_size = output.shape[:2]
    return output, valid_steps(check_lengths(lengths, steps, batch_size, output.device), steps).squeeze(-1)


def _check_output(output: Any, time: Any) -> None:
    if not isinstance(output, Tensor):
        raise ArgumentTypeError.of("output", output, "is not a torch tensor", "Give what the layer returned first")
    if not output.is_floating_point():
        raise DTypeError.of("output", output.dtype, "is not a floating dtype", "Give what the layer returned first")
    if output.dim() <= check_size("time", time, least=0):
        problem = f"has no axis {time}, the time axis"
        raise ShapeError.of("output", tuple(output.shape), problem, "Give the right `time`")
