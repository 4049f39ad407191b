"""TaggerPlayer: a tag for every word, and where the model has them a label for the sentence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unspool.runtime.arithmetic import apply_linear, cross_entropy, softmax, valid_steps
from unspool.runtime.crf import ChainPlayer
from unspool.runtime.embedding import embed
from unspool.runtime.network import Array, Pooling, Tagger
from unspool.runtime.options import PLAIN, PlayOptions
from unspool.runtime.packing import LinearPlayer
from unspool.runtime.player import ExamplePlayer, JointScores, Scores, as_lengths
from unspool.runtime.pooling import pool
from unspool.runtime.stack import StackPlayer
from unspool.tasks.batch import UNSEEN, JointPrediction, TagPrediction

#: Where both directions over the characters of a word end.
ENDS = Pooling("last", True, None, None)


class TaggerPlayer(ExamplePlayer):
    """Scores of tags (time, batch, tags), and of labels where sentences have them.

    The `inputs` of a batch have `ids` and `forms` (time, batch), `characters` (characters, forms) and their `lengths`.

    Args:
        network: The model.
        allowed: Which tags may follow which, from the task: see `ChainPlayer`.
        options: How it is played.
    """

    def __init__(self, network: Tagger, allowed: NDArray[np.bool_] | None = None, options: PlayOptions = PLAIN) -> None:
        self.network, self.stack = network, StackPlayer(network.stack, options)
        self.head = LinearPlayer(network.head, options)
        self.speller = None if network.speller is None else StackPlayer(network.speller, options)
        self.crf = None if network.crf is None else ChainPlayer(network.crf, allowed)

    def score(self, batch: Any) -> Scores:
        lengths = as_lengths(batch.lengths)
        h, _ = self.stack.run(self.read(batch.inputs), lengths=lengths)
        tags = self.head(h)
        label = self.network.label
        if label is None:
            return Scores([tags])
        return Scores([JointScores(tags, apply_linear(label.head, pool(label.pooling, h, lengths)))])

    def summed_loss(self, scores: Any, batch: Any) -> float:
        """−log P, summed over the sentences whose tags are all known; of an unseen label, that of the tags alone."""
        lengths = as_lengths(batch.lengths)
        if self.network.label is None:
            return self._loss_of_tags(scores, np.asarray(batch.targets), lengths)
        tags, labels = (np.asarray(one) for one in batch.targets)
        labels = np.where((tags == UNSEEN).any(0), UNSEEN, labels)
        return self._loss_of_tags(scores.tags, tags, lengths) + cross_entropy(scores.labels, labels, UNSEEN)

    def predictions(self, scores: Any, batch: Any) -> Sequence[Any]:
        lengths = as_lengths(batch.lengths)
        if self.network.label is None:
            return self._tag(scores, lengths)
        labels = softmax(scores.labels.astype(np.float64))
        pairs = zip(self._tag(scores.tags, lengths), labels, strict=True)
        return [JointPrediction(*pair) for pair in pairs]

    def read(self, words: Any) -> Array:
        """What the layers read, (time, batch, width)."""
        vectors = embed(self.network.words, words.ids)
        if self.speller is None or self.network.letters is None:
            return vectors
        lengths = as_lengths(words.lengths)
        sequence, _ = self.speller.run(embed(self.network.letters, words.characters), lengths=lengths)
        return np.concatenate((vectors, pool(ENDS, sequence, lengths)[np.asarray(words.forms)]), -1)

    def _tag(self, scores: Array, lengths: NDArray[np.int64]) -> list[TagPrediction]:
        if self.crf is None:
            every = softmax(scores.astype(np.float64))
            decoded = [row[:length] for row, length in zip(every.argmax(-1).T, lengths, strict=True)]
        else:
            decoded, every = self.crf.decode(scores, lengths), self.crf.marginals(scores, lengths)
        chosen = [every[np.arange(len(tags)), row, tags] for row, tags in enumerate(decoded)]
        return [TagPrediction(*pair) for pair in zip(decoded, chosen, strict=True)]

    def _loss_of_tags(self, scores: Array, targets: NDArray[np.int64], lengths: NDArray[np.int64]) -> float:
        known = (targets != UNSEEN).all(0)
        scores, targets, lengths = scores[:, known], targets[:, known], lengths[known]
        if self.crf is not None:
            return float(-self.crf.log_likelihood(scores, targets, lengths).sum())
        inside = valid_steps(lengths, len(scores))[..., 0]
        return cross_entropy(scores[inside], targets[inside], UNSEEN)
