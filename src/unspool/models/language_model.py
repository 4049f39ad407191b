"""The language model: tokens in, the next token out."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from unspool.data.vocabulary import Vocabulary
from unspool.learning.contract import Learner, Outcome
from unspool.learning.cross_entropy import linear_cross_entropy
from unspool.learning.device import to_device_of
from unspool.learning.teacher_forcing import free_run
from unspool.models.backbone import initialize_weights
from unspool.models.backbone_model import BackboneModel, Reading, with_lower
from unspool.models.baselines.encoders import StatelessBackbone
from unspool.nn.regularized import draw_mask
from unspool.settings.model import LanguageModelSettings


class LanguageModel(BackboneModel, Learner):
    """P(next token | all before): embedding → recurrent layers → head. The state is carried on from call to call."""

    def __init__(self, vocabulary_size: int, settings: LanguageModelSettings) -> None:
        super().__init__()
        width = settings.embedding or settings.sizes[0]
        self.embedding = nn.Embedding(vocabulary_size, width)
        if settings.tied:  # as a head, torch's initial weights would be far too large
            nn.init.normal_(self.embedding.weight, std=1 / math.sqrt(width))
        self.embedding_dropout = settings.embedding_dropout
        self.make_layers(settings, width)
        if settings.backbone == "mlp":  # drawn after the layers it replaces, so that all models of a seed draw alike
            self.backbone = StatelessBackbone(settings, width)
        self._make_head(vocabulary_size, self.backbone.output_size, settings.tied)
        self.supervision = list(settings.supervised.values())
        self.lower_heads = nn.ModuleList(nn.Linear(lower, vocabulary_size) for lower in self.level_sizes[:-1])
        initialize_weights(self, settings)

    def _make_head(self, vocabulary_size: int, size: int, tied: bool) -> None:
        """Weights from the output of the layers to the tokens; tied ones are those of the embedding."""
        width = self.embedding.embedding_dim
        self.projection = nn.Linear(size, width) if tied and size != width else None
        self.head = self.embedding.weight if tied else nn.Parameter(torch.empty(vocabulary_size, size))
        self.head_bias = nn.Parameter(torch.zeros(vocabulary_size))
        if not tied:
            bound = 1 / math.sqrt(size)
            nn.init.uniform_(self.head, -bound, bound)

    def forward(self, batch: tuple[Tensor, Tensor], state: Any, teacher_forcing: float = 1.0) -> Outcome:
        """The mean cross-entropy of `(ids, targets)`, each (time, batch), in nats."""
        ids, targets = batch
        if teacher_forcing < 1:
            return self._run_free(ids, targets, state, teacher_forcing)
        found = self.encode(ids, state)
        output = found.sequences[-1]
        loss = linear_cross_entropy(self.features(output), self.head, self.head_bias, targets)
        return Outcome(loss, targets.numel(), found.state, output, extra=self._extra(found, targets))

    def initial_state(self, batch_size: int) -> Any:
        """A state of zeros."""
        return self.backbone.initial_state(batch_size, self.embedding.weight)

    def token_embedding(self) -> nn.Embedding:
        return self.embedding

    @torch.no_grad()
    def surprise(self, batch: tuple[Tensor, Tensor]) -> NDArray[np.float64]:
        found: NDArray[np.float64] = self._nats(*batch).numpy()
        return found

    def last_surprise(self, batch: tuple[Tensor, Tensor]) -> Tensor:
        ids, targets = batch
        return self._nats(ids[:, :1], targets[:, :1])[-1, 0]

    def _nats(self, ids: Tensor, targets: Tensor) -> Tensor:
        """−log P of each target, (time, batch)."""
        output = self.features(self.encode(ids, self.initial_state(ids.shape[1])).sequences[-1])
        logits = functional.linear(output, self.head, self.head_bias)
        nats = functional.cross_entropy(logits.flatten(0, 1).double(), targets.flatten(), reduction="none")
        return nats.reshape(targets.shape)

    def encode(self, ids: Tensor, state: Any) -> Reading:
        """Run the recurrent layers over tokens (time, batch)."""
        return self.read(self.drop_input(self.embed(ids)), state)

    def embed(self, ids: Tensor) -> Tensor:
        """The embedding of tokens; in training without those that `embedding_dropout` leaves out of this call."""
        p = self.embedding_dropout
        embedded: Tensor = self.embedding(ids)
        if not (self.training and p):
            return embedded
        kept = draw_mask(embedded, (self.embedding.num_embeddings, 1), p)
        return embedded * kept[ids]

    def features(self, output: Tensor) -> Tensor:
        """The input of the head, from the output of the top layer."""
        features = self.drop(output)
        return features if self.projection is None else self.projection(features)

    def predict(self, ids: NDArray[np.int64], state: Any) -> tuple[NDArray[np.float64], Any]:
        """Logits of what follows the last of `ids` (time, batch), and the state."""
        with self.evaluating():
            found = self.encode(to_device_of(self, ids), state)
            features = self.features(found.sequences[-1])
            logits = functional.linear(features[-1], self.head, self.head_bias)
        return logits.to("cpu", torch.float64).numpy(), found.state

    def measure(self, window: tuple[NDArray[np.int64], NDArray[np.int64]], state: Any) -> tuple[float, Any]:
        """The mean cross-entropy of `(ids, targets)`, each (time, batch), in nats; and the state after them."""
        with self.evaluating():
            found = self(to_device_of(self, window), state)
        return float(found.loss), found.state

    def _run_free(self, ids: Tensor, targets: Tensor, state: Any, teacher_forcing: float) -> Outcome:
        readings: list[Reading] = []  # one per step

        def predict(now: Tensor, state: Any) -> tuple[Tensor, Any]:
            readings.append(self.encode(now.unsqueeze(0), state))
            features = self.features(readings[-1].sequences[-1])
            return functional.linear(features[0], self.head, self.head_bias), readings[-1].state

        logits, state = free_run(predict, ids, state, teacher_forcing)
        loss = functional.cross_entropy(logits.flatten(0, 1), targets.flatten())
        sequences = [torch.cat(level) for level in zip(*(one.sequences for one in readings), strict=True)]
        penalties = [one.extra for one in readings if one.extra is not None]
        found = Reading(sequences, state, torch.stack(penalties).mean() if penalties else None)
        return Outcome(loss, targets.numel(), state, sequences[-1], extra=self._extra(found, targets))

    def _extra(self, found: Reading, targets: Tensor) -> Tensor | None:
        """What training adds to the loss: the losses of lower layers and the penalty on gates."""
        if not self.training:
            return None
        heads = [head for head in self.lower_heads if isinstance(head, nn.Linear)]
        losses = [
            linear_cross_entropy(self.drop(sequence), head.weight, head.bias, targets)
            for head, sequence in zip(heads, found.sequences[:-1], strict=True)
        ]
        return with_lower(found.extra, self.supervision, losses)


def make_model(vocabulary: Vocabulary, settings: LanguageModelSettings) -> LanguageModel:
    """A new model of a vocabulary."""
    if settings.embedding is None and vocabulary.kind in ("char", "byte"):
        settings = settings.model_copy(update={"embedding": min(settings.sizes[0], 64)})
    return LanguageModel(len(vocabulary), settings)
