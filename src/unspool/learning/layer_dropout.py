"""Layer-wise dropout: each layer's rate from what its activity is worth, and how much its units repeat each other."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from unspool.errors import ArgumentError
from unspool.nn.checks import check_lengths
from unspool.nn.layer import valid_steps

#: A rate above which too little comes through for a layer to change what is wrong with it.
MOST = 0.75
#: Steps that an activity is measured on: a covariance of some hundred units is settled by then.
MEASURED = 8192


class Activity(NamedTuple):
    """What a layer's activity is like; both numbers are from 0 to 1."""

    information: float  # a
    co_adaptation: float  # b


def best_dropout(a: float, b: float) -> float:
    """The p that maximises a·log(1 − p) − b/p, which is (−b + √(b² + 4ab)) / 2a.

    The more information `a` a layer carries, the more dropping it costs; the more its units depend on each other, `b`,
    the more it gains. Written as 2√b / (√b + √(b + 4a)) nothing cancels, however small b is.
    """
    for name, value, least in (("a", a, "above 0"), ("b", b, "from 0 on")):
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if not number or not 0 <= value < math.inf or (name == "a" and not value):
            raise ArgumentError.of(name, value, f"is not a number {least}", "Give what a layer's activity has of it")
    return 2 * math.sqrt(b) / (math.sqrt(b) + math.sqrt(b + 4 * a))


def measure_activity(sequence: Tensor, lengths: Sequence[int] | Tensor | None = None) -> Activity | None:
    """Information and co-adaptation of a layer's output (time, rows, units); None where it never changes.

    Information is the effective rank of the activity divided by its width: exp(−Σ s log s) / width, where s are the
    covariance's eigenvalues as shares of their sum. It is 1 where all directions vary alike, 1/width where one does.
    Co-adaptation is the mean squared correlation between two different units: 0 where each says its own, 1 where all
    say the same. A unit that never changes correlates with none.
    """
    steps, rows, width = sequence.shape
    if lengths is None:
        values = sequence.reshape(-1, width)
    else:
        values = sequence[valid_steps(check_lengths(lengths, steps, rows, sequence.device), steps).squeeze(-1)]
    values = values[:: max(1, len(values) // MEASURED)].detach().double()
    if not len(values) or not values.isfinite().all():
        return None
    centred = values - values.mean(0)
    covariance = centred.t() @ centred / len(values)
    variance = covariance.diagonal()
    if not variance.sum() > 0:
        return None
    shares = torch.linalg.eigvalsh(covariance).clamp(min=0)
    shares = shares / shares.sum()
    rank = float(torch.special.entr(shares).sum().exp())
    deviation = variance.sqrt()
    scale = torch.where(deviation > 0, 1 / deviation, 0.0)
    correlation = covariance * scale * scale.unsqueeze(1)
    others = correlation.square().sum() - correlation.diagonal().square().sum()
    return Activity(min(rank / width, 1.0), min(float(others) / max(1, width * (width - 1)), 1.0))


class LayerDropout(nn.Module):
    """A rate a layer, which is state of the model: a checkpoint has it. 0 until the activity is measured."""

    rates: Tensor

    def __init__(self, layers: int) -> None:
        super().__init__()
        self.register_buffer("rates", torch.zeros(layers))
        self.watching = False

    @torch.no_grad()
    def watch(self, sequences: Sequence[Tensor], lengths: Tensor | None) -> None:
        """Set the rates by what the layers give, the lowest first; a layer that never changes keeps its own."""
        for level, sequence in enumerate(sequences):
            if (found := measure_activity(sequence, lengths)) is not None:
                self.rates[level] = min(best_dropout(*found), MOST)


@torch.no_grad()
def measure_rates(learner: nn.Module, batch: Any, carried: Any) -> dict[str, float]:
    """New rates for a learner whose dropout is by layer, by a batch that it reads undisturbed."""
    found = [part for part in learner.modules() if isinstance(part, LayerDropout)]
    was = learner.training
    learner.eval()
    try:
        for part in found:
            part.watching = True
        learner(batch, carried)
    finally:
        for part in found:
            part.watching = False
        learner.train(was)
    rates = [rate for part in found for rate in part.rates.tolist()]
    return {f"dropout {number}": rate for number, rate in enumerate(rates, 1)}
