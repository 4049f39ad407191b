"""Forecaster: a look-back in, quantiles of the next steps out, as what is added to a naive forecast."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional

from unspool.learning.settings import Effect, Size
from unspool.nn import StatelessMLP, make_pooling
from unspool.tasks.body import OF_LAYERS, OF_OUTPUT, BodySettings, make_body, make_memoryless, spread_weights
from unspool.tasks.examples import Batch, ExampleLearner, Scores
from unspool.tasks.layered import Layered

#: The share of the unit below which the deviation of a past is not counted.
LEAST = 0.1


class ForecasterSettings(BodySettings):
    """Recurrent layers over the past, and one over the future."""

    effects = (
        *BodySettings.effects,
        Effect((*OF_LAYERS, *OF_OUTPUT, "bidirectional"), "reader", ("recurrent",)),
    )

    hidden: Size = Field(64, description="units of each layer and direction")
    bidirectional: bool = Field(False, description="the past is read from both ends")
    relative: Literal["season", "last", "none"] = Field(
        "season", description="what is learned is the difference to the last season, to the last value, or the value"
    )
    reader: Literal["recurrent", "bag", "fcn", "cnn"] = Field(
        "recurrent", description="recurrent: layers with memory; bag, fcn and cnn have none, and are there to compare"
    )


class Window(NamedTuple):
    """What forecasts are made from, scaled."""

    past: Tensor  # (look-back, rows, targets + covariates)
    future: Tensor  # (horizon, rows, known covariates)
    unit: Tensor  # (rows, targets): what a season changes in the mean, by which errors and differences are measured


class Forecaster(ExampleLearner):
    """Quantiles (horizon, rows, targets, levels), in the scale of the past; they never cross.

    An encoder reads the past, a decoder goes over the horizon and reads what the encoder has become, the place of the
    step and the known covariates. It reads no forecast of its own: a mistake is not carried on.
    """

    levels: Tensor

    def __init__(
        self, settings: ForecasterSettings, quantiles: Sequence[float], season: int, targets: int, seen: int, known: int
    ) -> None:
        super().__init__()
        self.season = {"season": season, "last": 1, "none": 0}[settings.relative]
        self.targets, self.middle = targets, list(quantiles).index(0.5)
        self.register_buffer("levels", torch.tensor(quantiles), persistent=False)
        self.reader = Past(settings, seen) if settings.reader == "recurrent" else MemorylessPast(settings, seen)
        recurrent = isinstance(self.reader, Past)
        self.supervision = list(settings.supervised.values()) if recurrent else []
        width = self.reader.output_size + 1 + known
        self.decoders, self.heads = nn.ModuleList(), nn.ModuleList()
        for _ in (*self.supervision, None):
            hidden = settings.hidden
            self.decoders.append(Future(settings, width) if recurrent else StatelessMLP(width, hidden, hidden))
            self.heads.append(nn.Linear(hidden, targets * len(quantiles)))
        for parameter in self.heads.parameters():
            nn.init.zeros_(parameter)  # training begins at the naive forecast itself
        spread_weights(self, settings)

    def score(self, batch: Batch) -> Scores:
        past, future, unit = batch.inputs
        values, others = past[..., : self.targets], past[..., self.targets :]
        base, size = torch.zeros_like(values[:1]), torch.ones_like(unit)
        if self.season:
            base, size = self.naive(values, len(future)), self.size(values, unit)
            values = (values - values[-1]) / size
        contexts, output, extra = self.reader(torch.cat((values, others), -1))
        found = []
        for context, decoder, head in zip(contexts, self.decoders, self.heads, strict=True):
            steps = decoder(self.reader.drop(beside(context, future)))
            raw = head(self.reader.drop(steps)).unflatten(-1, (self.targets, len(self.levels)))
            found.append(base.unsqueeze(-1) + size.unsqueeze(-1) * spread(raw, self.middle))
        return Scores(found, output, extra)

    def naive(self, values: Tensor, horizon: int) -> Tensor:
        """The last season, again and again."""
        return values[len(values) - self.season + torch.arange(horizon) % self.season]

    def size(self, values: Tensor, unit: Tensor) -> Tensor:
        """The deviation (rows, targets) of the past that is read, and where it hardly changes, a share of the unit.

        By it differences are divided and forecasts multiplied: a wave of twice the height has twice the forecast, and
        an interval of twice the width, also where training has seen none as high.
        """
        return ((values - values.mean(0)).square().mean(0) + (LEAST * unit).square()).sqrt()

    def total(self, scores: Tensor, batch: Batch) -> Tensor:
        """Σ_rows of the mean of max(q e, (q − 1) e), with errors e in units of what a season changes."""
        e = (batch.targets.unsqueeze(-1) - scores) / batch.inputs.unit.unsqueeze(-1)
        return torch.maximum(self.levels * e, (self.levels - 1) * e).mean((0, 2, 3)).sum()

    def answer(self, scores: Tensor, batch: Batch) -> Sequence[Any]:  # noqa: ARG002
        return list(scores.transpose(0, 1).double().numpy())


class Past(Layered):
    """Recurrent layers, of which the last state counts."""

    def __init__(self, settings: ForecasterSettings, seen: int) -> None:
        super().__init__()
        self.make_layers(settings, seen, settings.bidirectional)
        self.output_size = settings.hidden * (1 + settings.bidirectional)
        self.pooling = make_pooling("last", self.output_size, bidirectional=settings.bidirectional)

    def forward(self, x: Tensor) -> tuple[list[Tensor], Tensor, Tensor | None]:
        """The final states (rows, width) of layers with heads, the top's sequence, and what training adds."""
        found = self.read(self.drop_input(x))
        return [self.pooling(one) for one in found.sequences], found.sequences[-1], found.extra


class MemorylessPast(nn.Module):
    """The past as one vector a row, by a baseline without memory."""

    def __init__(self, settings: ForecasterSettings, seen: int) -> None:
        super().__init__()
        self.dropout = 0.0 if settings.dropout == "auto" else settings.dropout
        self.baseline = make_memoryless(settings.reader, seen, settings.hidden)
        self.output_size = self.baseline.output_size

    def forward(self, x: Tensor) -> tuple[list[Tensor], None, None]:
        """As `Past`."""
        return [self.baseline(x)], None, None

    def drop(self, values: Tensor) -> Tensor:
        """Dropout."""
        return functional.dropout(values, self.dropout, self.training)


class Future(nn.Module):
    """A recurrent layer of the same kind as those over the past."""

    def __init__(self, settings: ForecasterSettings, width: int) -> None:
        super().__init__()
        rules = {"residual": False, "dropout": 0.0, "gate_penalty": 0.0, "supervision": 0.0}
        self.body = make_body(settings.model_copy(update={"layers": 1, **rules}), width)

    def forward(self, x: Tensor) -> Tensor:
        output: Tensor = self.body(x)[0]
        return output


def beside(context: Tensor, future: Tensor) -> Tensor:
    """What a decoder reads at each step of the horizon: the context, the place of the step, what is known of it."""
    horizon, rows, _ = future.shape
    place = torch.linspace(0, 1, horizon + 1, dtype=future.dtype)[1:, None, None].expand(-1, rows, -1)
    return torch.cat((context.expand(horizon, -1, -1), place, future), -1)


def spread(raw: Tensor, middle: int) -> Tensor:
    """The median as it is, every other quantile a positive distance beyond the one next to it."""
    below, median, above = raw.split([middle, 1, raw.shape[-1] - middle - 1], -1)
    up = functional.softplus(above).cumsum(-1)
    down = functional.softplus(below).flip(-1).cumsum(-1).flip(-1)
    return torch.cat((median - down, median, median + up), -1)
