"""Tagger: word vectors with their characters, an encoder over them, and a chain of tags on top."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from unspool.models.backbone import initialize_weights, make_backbone
from unspool.models.baselines.encoders import WordwiseEncoder
from unspool.models.encoder import Encoder, embedding_width
from unspool.models.example_model import ExampleLearner, Scores
from unspool.models.token_embedding import drop_words
from unspool.nn import LastState, LinearChainCRF
from unspool.nn.layer import valid_steps
from unspool.settings.model import TaggerSettings
from unspool.tasks.batch import UNSEEN, Batch, TagPrediction, WordBatch


class WordVectors(nn.Module):
    """The vector of a word: its embedding, beside the final states of a bidirectional layer over its characters."""

    def __init__(self, settings: TaggerSettings, words: int, characters: int) -> None:
        super().__init__()
        self.word_dropout = settings.word_dropout
        self.embedding = nn.Embedding(words, embedding_width(settings))
        self.output_size = self.embedding.embedding_dim
        self.letters: nn.Embedding | None = None
        if settings.char_hidden:
            self.letters = nn.Embedding(characters, settings.char_hidden)
            one_layer = settings.with_one_layer(settings.char_hidden)
            speller: Any = make_backbone(one_layer, settings.char_hidden, bidirectional=True)
            self.speller = speller
            self.ends = LastState(speller.output_size, bidirectional=True)
            self.output_size += self.ends.output_size

    def forward(self, words: WordBatch) -> Tensor:
        ids = drop_words(words.ids, self.word_dropout) if self.training else words.ids
        vectors: Tensor = self.embedding(ids)
        if self.letters is None:
            return vectors
        sequence, _ = self.speller(self.letters(words.characters), lengths=words.lengths)
        spelled = self.ends(sequence, lengths=words.lengths)
        # embedding, not an index: the gradients of a form that many words share are summed without sorting
        return torch.cat((vectors, functional.embedding(words.forms, spelled)), -1)


class Tagger(ExampleLearner):
    """log P(tags | words): the heads of all levels give scores (time, batch, tags), and share one chain of tags."""

    def __init__(
        self, settings: TaggerSettings, words: int, characters: int, tags: int, allowed: NDArray[np.bool_]
    ) -> None:
        super().__init__()
        recurrent = settings.backbone == "recurrent"
        self.supervision = list(settings.supervised.values()) if recurrent else []
        self.words = WordVectors(settings, words, characters)
        width = self.words.output_size
        self.encoder = Encoder(settings, width) if recurrent else WordwiseEncoder(settings, width)
        self.heads = nn.ModuleList(nn.Linear(size, tags) for size in self.encoder.level_sizes)
        self.crf = LinearChainCRF(tags, allowed=allowed) if settings.crf else None
        initialize_weights(self, settings)

    def token_embedding(self) -> nn.Embedding:
        return self.words.embedding

    def score(self, batch: Batch) -> Scores:
        found = self.encoder.encode(self.words(batch.inputs), batch.lengths)
        levels = [head(self.encoder.drop(one)) for head, one in zip(self.heads, found.sequences, strict=True)]
        return Scores(levels, found.sequences[-1], found.extra)

    def summed_loss(self, scores: Any, batch: Batch) -> Tensor:
        """Over sentences whose tags are all known: a chain with an unknown link has no likelihood."""
        targets, lengths = batch.targets, batch.lengths
        known = (targets != UNSEEN).all(0)
        if not known.any():
            nothing: Tensor = scores.new_zeros(())
            return nothing
        if not known.all():
            scores, targets, lengths = scores[:, known], targets[:, known], lengths[known.to(lengths.device)]
        if self.crf is not None:
            return -self.crf.log_likelihood(scores, targets, lengths).sum()
        inside = valid_steps(lengths, len(scores)).squeeze(-1)
        return functional.cross_entropy(scores[inside], targets[inside], reduction="sum")

    def predictions(self, scores: Any, batch: Batch) -> Sequence[Any]:
        if self.crf is None:
            highest = scores.cpu().double().softmax(-1).max(-1)
            each = zip(highest.indices.unbind(1), highest.values.unbind(1), batch.lengths.tolist(), strict=True)
            return [TagPrediction(tags[:n].numpy(), p[:n].numpy()) for tags, p, n in each]
        sequences, _ = self.crf.decode(scores, batch.lengths)
        marginals = self.crf.marginals(scores, batch.lengths).cpu().double().clamp(0.0, 1.0).numpy()
        found = []
        for index, sequence in enumerate(sequences):
            tags = np.array(sequence, np.int64)
            found.append(TagPrediction(tags, marginals[np.arange(len(tags)), index, tags]))
        return found
