"""Dropout by layer: each rate follows from the information in the layer's activity and from how its units correlate."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from unspool.cells.numbers import is_number
from unspool.errors import ArgumentError
from unspool.learning.device import where_float64
from unspool.nn.checks import check_lengths
from unspool.nn.layer import valid_steps

#: The highest rate: above it, too little passes for a layer to learn from.
HIGHEST = 0.75
#: Steps that an activity is measured on: enough for the covariance of some hundred units.
MEASURED = 8192


class Activity(NamedTuple):
    """Two measures of a layer's activity, each from 0 to 1."""

    information: float  # a
    co_adaptation: float  # b


def best_dropout(a: float, b: float) -> float:
    """The dropout rate p that maximizes a·log(1 − p) − b/p, which is (−b + √(b² + 4ab)) / 2a.

    Written as 2√b / (√b + √(b + 4a)), nothing cancels, however small b is.

    Args:
        a: Information in the layer's activity, above 0: the more there is, the more dropout costs.
        b: Co-adaptation, from 0: the more its units depend on each other, the more dropout gains.

    Returns:
        The rate, from 0 to below 1.

    Example:
        >>> best_dropout(0.5, 0.0)
        0.0
        >>> best_dropout(1.0, 0.5)
        0.5
    """
    for name, value, least in (("a", a, "above 0"), ("b", b, "from 0 on")):
        if not is_number(value) or not 0 <= value < math.inf or (name == "a" and not value):
            raise ArgumentError.of(name, value, f"is not a number {least}", "Give what `measure_activity` found")
    return 2 * math.sqrt(b) / (math.sqrt(b) + math.sqrt(b + 4 * a))


def measure_activity(sequence: Tensor, lengths: Sequence[int] | Tensor | None = None) -> Activity | None:
    """Information and co-adaptation of a layer's output (time, batch, units); None where it never changes.

    Information is the effective rank of the activity divided by its width: exp(−Σ s log s) / width, where s are the
    eigenvalues of the covariance as fractions of their sum. It is 1 where all directions vary alike, 1/width where one
    does. Co-adaptation is the mean squared correlation between two different units: 0 where they are independent, 1
    where all are the same. A unit that never changes correlates with none.

    Args:
        sequence: The output of a layer.
        lengths: Of the sequences; steps beyond them do not count.

    Returns:
        Information a and co-adaptation b, as `best_dropout` takes them; None also if a value is not finite.

    Example:
        >>> measure_activity(torch.eye(4).unsqueeze(1)).information < 1
        True
    """
    steps, batch_size, width = sequence.shape
    if lengths is None:
        values = sequence.reshape(-1, width)
    else:
        values = sequence[valid_steps(check_lengths(lengths, steps, batch_size, sequence.device), steps).squeeze(-1)]
    values = where_float64(values[:: max(1, len(values) // MEASURED)].detach()).double()
    if not len(values) or not values.isfinite().all():
        return None
    centered = values - values.mean(0)
    covariance = centered.t() @ centered / len(values)
    variance = covariance.diagonal()
    if not variance.sum() > 0:
        return None
    fractions = torch.linalg.eigvalsh(covariance).clamp(min=0)
    fractions = fractions / fractions.sum()
    rank = float(torch.special.entr(fractions).sum().exp())
    deviation = variance.sqrt()
    scale = torch.where(deviation > 0, 1 / deviation, 0.0)
    correlation = covariance * scale * scale.unsqueeze(1)
    others = correlation.square().sum() - correlation.diagonal().square().sum()
    return Activity(min(rank / width, 1.0), min(float(others) / max(1, width * (width - 1)), 1.0))


class LayerDropout(nn.Module):
    """One dropout rate per layer, 0 until the activity is measured. It is a buffer, so that checkpoints hold it."""

    rates: Tensor

    def __init__(self, layers: int) -> None:
        super().__init__()
        self.register_buffer("rates", torch.zeros(layers))
        self.watching = False

    @torch.no_grad()
    def watch(self, sequences: Sequence[Tensor], lengths: Tensor | None) -> None:
        """Set the rates from the outputs of the layers, the lowest first; one that never changes keeps its rate."""
        for level, sequence in enumerate(sequences):
            if (found := measure_activity(sequence, lengths)) is not None:
                self.rates[level] = min(best_dropout(*found), HIGHEST)


@torch.no_grad()
def measure_rates(learner: nn.Module, batch: Any, state: Any) -> dict[str, float]:
    """Set the rates of a learner with dropout by layer, from a batch that it reads without dropout.

    Returns:
        The new rates: "dropout 1" is that of the lowest layer.
    """
    found = [part for part in learner.modules() if isinstance(part, LayerDropout)]
    was = learner.training
    learner.eval()
    try:
        _watch(found, True)
        learner(batch, state)
    finally:
        _watch(found, False)
        learner.train(was)
    rates = [rate for part in found for rate in part.rates.tolist()]
    return {f"dropout {number}": rate for number, rate in enumerate(rates, 1)}


def _watch(parts: Sequence[LayerDropout], watching: bool) -> None:
    for part in parts:
        part.watching = watching
