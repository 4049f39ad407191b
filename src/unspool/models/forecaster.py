"""Forecaster: the past in, quantiles of the next steps out, as differences from a naive forecast."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from unspool.models.backbone import initialize_weights, make_backbone
from unspool.models.backbone_model import BackboneModel
from unspool.models.baselines.encoders import MemorylessPast
from unspool.models.baselines.memoryless import StatelessMLP
from unspool.models.example_model import Batch, ExampleLearner, Scores
from unspool.nn import make_pooling
from unspool.settings.model import ForecasterSettings

#: The fraction of the unit that is added to the deviation of a past, so that a constant past has one.
LEAST_DEVIATION = 0.1


class Window(NamedTuple):
    """The input of forecasts, standardized."""

    past: Tensor  # (lookback, batch, targets + covariates)
    future: Tensor  # (horizon, batch, future covariates)
    unit: Tensor  # (batch, targets): the mean change over a season, in which errors are measured


class Forecaster(ExampleLearner):
    """Quantiles (horizon, batch, targets, levels), in the scale of the past; they never cross.

    An encoder reads the past. A decoder runs over the horizon and reads the encoder's final state, the place of the
    step and the future covariates. It does not read its own forecasts, so that errors do not accumulate.
    """

    levels: Tensor

    def __init__(
        self,
        settings: ForecasterSettings,
        quantiles: Sequence[float],
        season: int,
        *,
        targets: int,
        width: int,  # of a step of the past: targets and covariates
        future: int,  # covariates of a step of the horizon
    ) -> None:
        super().__init__()
        self.season = {"season": season, "last": 1, "none": 0}[settings.relative_to]
        self.targets, self.quantiles = targets, tuple(quantiles)
        self.middle = self.quantiles.index(0.5)
        self.register_buffer("levels", torch.tensor(quantiles), persistent=False)
        self.encoder = Past(settings, width) if settings.backbone == "recurrent" else MemorylessPast(settings, width)
        recurrent = isinstance(self.encoder, Past)
        self.supervision = list(settings.supervised.values()) if recurrent else []
        self.decoders, self.heads = nn.ModuleList(), nn.ModuleList()
        hidden = settings.sizes[-1]
        for size in self.encoder.level_sizes:
            read = size + 1 + future
            decoder = Future(settings, read) if recurrent else StatelessMLP(read, hidden, hidden)
            self.decoders.append(decoder)
            self.heads.append(nn.Linear(decoder.output_size, targets * len(quantiles)))
        for parameter in self.heads.parameters():
            nn.init.zeros_(parameter)  # training starts from the naive forecast itself
        initialize_weights(self, settings)

    def score(self, batch: Batch) -> Scores:
        past, future, unit = batch.inputs
        values, others = past[..., : self.targets], past[..., self.targets :]
        base, size = torch.zeros_like(values[:1]), torch.ones_like(unit)
        if self.season:
            base, size = self.naive(values, len(future)), self.deviation(values, unit)
            values = (values - values[-1]) / size
        contexts, output, extra = self.encoder(torch.cat((values, others), -1))
        found = []
        for context, decoder, head in zip(contexts, self.decoders, self.heads, strict=True):
            steps = decoder(self.encoder.drop(beside(context, future)))
            raw = head(self.encoder.drop(steps)).unflatten(-1, (self.targets, len(self.levels)))
            found.append(base.unsqueeze(-1) + size.unsqueeze(-1) * spread(raw, self.middle))
        return Scores(found, output, extra)

    def naive(self, values: Tensor, horizon: int) -> Tensor:
        """The last season, repeated."""
        return values[len(values) - self.season + torch.arange(horizon) % self.season]

    def deviation(self, values: Tensor, unit: Tensor) -> Tensor:
        """The standard deviation (batch, targets) of the past, and where it hardly changes, a fraction of the unit.

        Differences are divided by it, and forecasts multiplied: a wave of twice the height has twice the forecast, and
        an interval of twice the width, also where training has seen none as high.
        """
        return ((values - values.mean(0)).square().mean(0) + (LEAST_DEVIATION * unit).square()).sqrt()

    def summed_loss(self, scores: Tensor, batch: Batch) -> Tensor:
        """Σ over the batch of the mean of max(q e, (q − 1) e), with errors e in units of the change over a season."""
        e = (batch.targets.unsqueeze(-1) - scores) / batch.inputs.unit.unsqueeze(-1)
        return torch.maximum(self.levels * e, (self.levels - 1) * e).mean((0, 2, 3)).sum()

    def predictions(self, scores: Tensor, batch: Batch) -> Sequence[Any]:  # noqa: ARG002
        return list(scores.transpose(0, 1).cpu().double().numpy())


class Past(BackboneModel):
    """Recurrent layers over the past, of which the last state counts."""

    def __init__(self, settings: ForecasterSettings, width: int) -> None:
        super().__init__()
        self.make_layers(settings, width, settings.bidirectional)
        both = settings.bidirectional
        self.poolings = nn.ModuleList(make_pooling("last", size, bidirectional=both) for size in self.level_sizes)

    def forward(self, x: Tensor) -> tuple[list[Tensor], Tensor, Tensor | None]:
        """The final states (batch, width) of layers with heads, the sequence of the top, and what training adds."""
        found = self.read(self.drop_input(x))
        pooled = [pooling(one) for pooling, one in zip(self.poolings, found.sequences, strict=True)]
        return pooled, found.sequences[-1], found.extra


class Future(nn.Module):
    """A recurrent layer over the horizon, with the cell of those over the past."""

    def __init__(self, settings: ForecasterSettings, width: int) -> None:
        super().__init__()
        plain = {"dropout": 0.0, "gate_penalty": 0.0, "deep_supervision": 0.0}
        backbone: Any = make_backbone(settings.with_one_layer().model_copy(update=plain), width)
        self.backbone, self.output_size = backbone, int(backbone.output_size)

    def forward(self, x: Tensor) -> Tensor:
        output: Tensor = self.backbone(x)[0]
        return output


def beside(context: Tensor, future: Tensor) -> Tensor:
    """The input of a decoder at each step of the horizon: the context, the place of the step, its covariates."""
    horizon, batch_size, _ = future.shape
    places = torch.linspace(0, 1, horizon + 1, dtype=future.dtype, device=future.device)
    place = places[1:, None, None].expand(-1, batch_size, -1)
    return torch.cat((context.expand(horizon, -1, -1), place, future), -1)


def spread(raw: Tensor, middle: int) -> Tensor:
    """The median as it is, and every other quantile at a positive distance from the one next to it."""
    below, median, above = raw.split([middle, 1, raw.shape[-1] - middle - 1], -1)
    up = functional.softplus(above).cumsum(-1)
    down = functional.softplus(below).flip(-1).cumsum(-1).flip(-1)
    return torch.cat((median - down, median, median + up), -1)
