"""ForecasterPlayer: the past in, quantiles of the next steps out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from unspool.errors import ArgumentError
from unspool.runtime.arithmetic import apply_linear, softplus
from unspool.runtime.network import Array, Forecaster
from unspool.runtime.player import ExamplePlayer, Scores
from unspool.runtime.pooling import pool
from unspool.runtime.stack import StackPlayer

#: The fraction of the unit that is added to the deviation of a past, so that a constant past has one.
LEAST_DEVIATION = 0.1


class ForecasterPlayer(ExamplePlayer):
    """Quantiles (horizon, batch, targets, levels), in the scale of the past.

    The `inputs` of a batch are (past, future, unit): (lookback, batch, targets + covariates), (horizon, batch, future
    covariates) and (batch, targets).

    Args:
        network: The model.
        threads: The most threads that a call uses.
    """

    def __init__(self, network: Forecaster, threads: int = 1) -> None:
        self.network = network
        self.stack, self.decoder = StackPlayer(network.stack, threads), StackPlayer(network.decoder, threads)

    def score(self, batch: Any) -> Scores:
        past, future, unit = (np.asarray(one, self.stack.dtype) for one in batch.inputs)
        count = self.network.targets
        values, base, size = past[..., :count], np.zeros_like(past[:1, :, :count]), np.ones_like(unit)
        if self.network.season:
            base, size = self._naive(values, len(future)), _deviation(values, unit)
            values = (values - values[-1]) / size
        h, _ = self.stack.run(np.concatenate((values, past[..., count:]), -1))
        steps, _ = self.decoder.run(_beside(pool(self.network.pooling, h), future))
        raw = apply_linear(self.network.head, steps)
        raw = raw.reshape(*raw.shape[:2], count, len(self.network.quantiles))
        return Scores([base[..., None] + size[..., None] * _spread(raw, self.network.quantiles.index(0.5))])

    def summed_loss(self, scores: Array, batch: Any) -> float:
        """Σ over the batch of the mean of max(q e, (q − 1) e), with errors e in units of the change over a season."""
        unit, levels = np.asarray(batch.inputs[2], np.float64), np.array(self.network.quantiles)
        errors = (np.asarray(batch.targets, np.float64)[..., None] - scores) / unit[..., None]
        return float(np.maximum(levels * errors, (levels - 1) * errors).mean((0, 2, 3)).sum())

    def predictions(self, scores: Array, batch: Any) -> Sequence[Any]:  # noqa: ARG002
        return list(scores.swapaxes(0, 1).astype(np.float64))

    def _naive(self, values: Array, horizon: int) -> Array:
        """The last season, repeated."""
        season = self.network.season
        if len(values) < season:
            problem = f"has fewer steps than the season of {season}"
            raise ArgumentError.of("past", len(values), problem, "Give the lookback that the model was trained with")
        return np.asarray(values[len(values) - season + np.arange(horizon) % season])


def _deviation(values: Array, unit: Array) -> Array:
    """The standard deviation (batch, targets) of the past, and where it hardly changes, a fraction of the unit."""
    least = unit * values.dtype.type(LEAST_DEVIATION)
    return np.asarray(np.sqrt(np.square(values - values.mean(0)).mean(0) + np.square(least)))


def _beside(context: Array, future: Array) -> Array:
    """The input of the decoder at each step of the horizon: the context, the place of the step, its covariates."""
    horizon, rows, _ = future.shape
    places = np.linspace(0, 1, horizon + 1, dtype=future.dtype)[1:, None, None]
    repeated = np.broadcast_to(context, (horizon, *context.shape))
    return np.concatenate((repeated, np.broadcast_to(places, (horizon, rows, 1)), future), -1)


def _spread(raw: Array, middle: int) -> Array:
    """The median as it is, and every other quantile at a positive distance from the one next to it."""
    below, median, above = raw[..., :middle], raw[..., middle : middle + 1], raw[..., middle + 1 :]
    up = softplus(above).cumsum(-1)
    down = softplus(below)[..., ::-1].cumsum(-1)[..., ::-1]
    return np.concatenate((median - down, median, median + up), -1)
