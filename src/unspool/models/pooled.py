"""Models that predict from a whole sequence: encoder, pooling, head."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from unspool.data.inputs import Inputs
from unspool.data.scale import Scale
from unspool.errors import ArgumentError
from unspool.learning.contract import Apart, Outcome
from unspool.models.backbone import initialize_weights
from unspool.models.backbone_model import with_lower
from unspool.models.baselines.encoders import MemorylessEncoder
from unspool.models.encoder import Encoder, embedding_width
from unspool.models.example_model import ExampleLearner, Scores
from unspool.models.token_embedding import TokenEmbedding, check_tokens
from unspool.nn import make_pooling
from unspool.settings.model import PooledSettings
from unspool.tasks.batch import Batch


class PooledModel(ExampleLearner):
    """Scores (batch, outputs) of sequences."""

    def __init__(self, settings: PooledSettings, inputs: Inputs, outputs: int) -> None:
        super().__init__()
        check_tokens(settings, inputs)
        self.supervision = list(settings.supervised.values()) if settings.backbone == "recurrent" else []
        self.window = settings.input_window
        tokens, width = inputs.tokens, embedding_width(settings)
        embedding = None if tokens is None else TokenEmbedding(settings, tokens, width)
        self.encoder: nn.Module
        self.mergers: nn.ModuleList | None = None
        if settings.backbone == "recurrent":
            self.encoder = Encoder(settings, inputs.features, embedding)
            sizes, both = self.encoder.level_sizes, settings.bidirectional
            if self.window:
                width = self.window * self.encoder.input_size
                self.mergers = nn.ModuleList(nn.Linear(size + width, size) for size in sizes)
            self.poolings = nn.ModuleList(make_pooling(settings.pooling, size, bidirectional=both) for size in sizes)
        else:
            self.encoder = MemorylessEncoder(settings, inputs.features, embedding)
            sizes = [self.encoder.output_size]
        self.heads = nn.ModuleList(nn.Linear(size, outputs) for size in sizes)
        initialize_weights(self, settings)

    def token_embedding(self) -> nn.Embedding | None:
        assert isinstance(self.encoder, Encoder | MemorylessEncoder)
        return self.encoder.embedding

    def score(self, batch: Batch) -> Scores:
        if not isinstance(self.encoder, Encoder):
            return Scores([self.heads[0](self.encoder(batch.inputs, batch.lengths))])
        x = self.encoder.embed(batch.inputs)
        found = self.encoder.read(x, lengths=batch.lengths)
        levels = [self._head(level, x, one, batch) for level, one in enumerate(found.sequences)]
        return Scores(levels, found.sequences[-1], found.extra)

    def take_apart(self, batch: Batch) -> Apart:
        if not isinstance(self.encoder, Encoder):
            problem = f"is not for a {type(self).__name__} without recurrent layers"
            raise ArgumentError.of(
                "learning_rule", "predictive-coding", problem, "Give `backbone='recurrent'`, or `learning_rule='bptt'`"
            )
        if self.mergers is not None:
            problem = "has layers whose input goes nowhere else"
            raise ArgumentError.of("learning_rule", "predictive-coding", problem, "Give `input_window=0`")
        layers = self.encoder.plain_layers()
        x = self.encoder.embed(batch.inputs)

        def outcome(output: Tensor) -> Outcome:
            return self.outcome(Scores([self._head(0, x, output, batch)], output), batch)

        return Apart(layers, x, batch.lengths, outcome)

    def _head(self, level: int, x: Tensor, sequence: Tensor, batch: Batch) -> Tensor:
        """The scores from the input of the layers and the output of one of them."""
        assert isinstance(self.encoder, Encoder)
        if self.mergers is not None:
            past = [functional.pad(x, (0, 0, 0, 0, lag, 0))[: len(x)] for lag in range(self.window)]
            sequence = torch.relu(self.mergers[level](torch.cat((sequence, *past), -1)))
        scores: Tensor = self.heads[level](self.encoder.drop(self.poolings[level](sequence, lengths=batch.lengths)))
        return scores


class Classifier(PooledModel):
    """log P(label | sequence).

    With several `members`, P is the mean of theirs: of this model and of its companions, which have the same settings
    and other weights. Each learns by itself; together they are less often wrong, and vary less with the seed.
    """

    def __init__(self, settings: PooledSettings, inputs: Inputs, outputs: int) -> None:
        super().__init__(settings, inputs, outputs)
        self.label_smoothing, self.mixup = settings.label_smoothing, settings.mixup
        alone = settings.model_copy(update={"members": 1})
        self.companions = nn.ModuleList(Classifier(alone, inputs, outputs) for _ in range(settings.members - 1))

    def forward(self, batch: Batch, state: Any = None, teacher_forcing: float = 1.0) -> Outcome:
        """In training, each member has its own loss, and their mean is minimized."""
        own = super().forward(batch, state, teacher_forcing)
        if not (self.training and self.companions):
            return own
        every: list[Outcome] = [own, *(member(batch) for member in self.companions)]
        outputs = [one.output for one in every if one.output is not None]
        extras = [one.extra for one in every if one.extra is not None]
        return own._replace(
            loss=torch.stack([one.loss for one in every]).mean(),
            output=torch.cat(outputs, -1) if outputs else None,
            extra=torch.stack(extras).mean() if extras else None,
        )

    def score(self, batch: Batch) -> Scores:
        """In training, the scores of this member alone; else the logarithm of the mean probabilities of all."""
        found = super().score(batch)
        if self.training or not self.companions:
            return found
        every = [found, *(member.score(batch) for member in self.companions)]  # type: ignore[operator]
        mean = torch.stack([one.levels[-1] for one in every]).log_softmax(-1).logsumexp(0) - math.log(len(every))
        return found._replace(levels=[*found.levels[:-1], mean])

    def take_apart(self, batch: Batch) -> Apart:
        if self.companions:
            problem = "trains one network"
            raise ArgumentError.of("learning_rule", "predictive-coding", problem, "Give `members=1`")
        return super().take_apart(batch)

    def outcome(self, found: Scores, batch: Batch) -> Outcome:
        """In training the loss with `label_smoothing` and `mixup` is minimized, and the plain one is told.

        So losses in training and in validation can be compared, whatever these settings are.
        """
        outcome = super().outcome(found, batch)
        if not (self.training and (self.label_smoothing or self.mixup)):
            return outcome
        minimized = self._regularized(found.levels[-1], batch.targets) / batch.units
        return outcome._replace(extra=with_lower(outcome.extra, [1.0], [minimized - outcome.loss]))

    def _regularized(self, scores: Tensor, targets: Tensor) -> Tensor:
        """The loss that is minimized, summed over examples.

        Each example is mixed with another: λ L(z, y) + (1 − λ) L(z, y'), where z = λ s + (1 − λ) s' are the scores of
        the mixed vectors, as the head is linear. λ is drawn from Beta(`mixup`, `mixup`), once per batch. Of L, a
        fraction `label_smoothing` is the cross-entropy of the uniform distribution.
        """
        loss = partial(functional.cross_entropy, label_smoothing=self.label_smoothing, reduction="sum")
        if not self.mixup:
            return loss(scores, targets)
        fraction = torch.distributions.Beta(self.mixup, self.mixup).sample().item()
        others = torch.randperm(len(scores), device=scores.device)
        mixed = torch.lerp(scores[others], scores, fraction)
        return fraction * loss(mixed, targets) + (1 - fraction) * loss(mixed, targets[others])

    def summed_loss(self, scores: Tensor, batch: Batch) -> Tensor:
        return functional.cross_entropy(scores, batch.targets, reduction="sum")

    def predictions(self, scores: Tensor, batch: Batch) -> Sequence[Any]:  # noqa: ARG002
        return list(scores.cpu().double().softmax(-1).numpy())


class Regressor(PooledModel):
    """Standardized targets; the loss is the mean squared error over examples and targets."""

    def __init__(self, settings: PooledSettings, inputs: Inputs, scale: Scale) -> None:
        super().__init__(settings, inputs, len(scale.mean))
        self.scale = scale

    def summed_loss(self, scores: Tensor, batch: Batch) -> Tensor:
        return functional.mse_loss(scores, batch.targets, reduction="sum") / scores.shape[-1]

    def predictions(self, scores: Tensor, batch: Batch) -> Sequence[Any]:  # noqa: ARG002
        return list(self.scale.undo(scores.cpu().double().numpy()))
