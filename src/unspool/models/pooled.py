"""Models that predict from a whole sequence: encoder, pooling, head."""

from __future__ import annotations

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
from unspool.models.example_model import Batch, ExampleLearner, Scores
from unspool.models.token_embedding import TokenEmbedding, check_tokens
from unspool.nn import make_pooling
from unspool.settings.model import PooledSettings


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
    """log P(label | sequence)."""

    def __init__(self, settings: PooledSettings, inputs: Inputs, outputs: int) -> None:
        super().__init__(settings, inputs, outputs)
        self.label_smoothing, self.mixup = settings.label_smoothing, settings.mixup

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
