"""Joint model of sentences: a tag for every word and a label for the whole, from one encoder."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from unspool.models.backbone import initialize_weights
from unspool.models.example_model import Scores
from unspool.models.tagger import Tagger
from unspool.nn import make_pooling
from unspool.settings.model import JointSettings
from unspool.tasks.batch import UNSEEN, Batch, JointPrediction


class JointScores(NamedTuple):
    """Scores of tags (time, batch, tags) and of labels (batch, labels)."""

    tags: Tensor
    labels: Tensor


class JointTagger(Tagger):
    """log P(tags, label | words) = log P(tags | words) + log P(label | words); both heads read the same encoder."""

    def __init__(
        self,
        settings: JointSettings,
        words: int,
        characters: int,
        tags: int,
        allowed: NDArray[np.bool_],
        labels: int,
    ) -> None:
        super().__init__(settings, words, characters, tags, allowed)
        sizes = self.encoder.level_sizes
        both = settings.bidirectional and settings.backbone == "recurrent"
        self.poolings = nn.ModuleList(make_pooling(settings.pooling, size, bidirectional=both) for size in sizes)
        self.label_heads = nn.ModuleList(nn.Linear(size, labels) for size in sizes)
        for added in (self.poolings, self.label_heads):
            initialize_weights(added, settings)

    def score(self, batch: Batch) -> Scores:
        found = self.encoder.encode(self.words(batch.inputs), batch.lengths)
        levels = [self._score_level(level, one, batch.lengths) for level, one in enumerate(found.sequences)]
        return Scores(levels, found.sequences[-1], found.extra)

    def _score_level(self, level: int, sequence: Tensor, lengths: Tensor) -> JointScores:
        drop = self.encoder.drop
        pooled = self.poolings[level](sequence, lengths=lengths)
        return JointScores(self.heads[level](drop(sequence)), self.label_heads[level](drop(pooled)))

    def summed_loss(self, scores: JointScores, batch: Batch) -> Tensor:
        """−log P(tags, label), summed over the sentences whose tags are all known; of an unseen label, −log P(tags)."""
        tags, labels = batch.targets
        of_tags = super().summed_loss(scores.tags, batch._replace(targets=tags))
        labels = labels.masked_fill((tags == UNSEEN).any(0), UNSEEN)
        return of_tags + functional.cross_entropy(scores.labels, labels, reduction="sum", ignore_index=UNSEEN)

    def predictions(self, scores: JointScores, batch: Batch) -> Sequence[Any]:
        tags = super().predictions(scores.tags, batch)
        labels = scores.labels.cpu().double().softmax(-1).numpy()
        return [JointPrediction(*pair) for pair in zip(tags, labels, strict=True)]
