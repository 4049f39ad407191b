"""The model of a tag for every word: words' vectors and spellings, an encoder over them, and a chain of tags on top."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional

from unspool.learning.settings import Count, Effect, Share, Size
from unspool.nn import LastState, LinearChainCRF, StatelessMLP
from unspool.nn.layer import valid_steps
from unspool.tasks.body import make_body, spread_weights
from unspool.tasks.encoder import Encoder, EncoderSettings, embedding_width
from unspool.tasks.examples import Batch, ExampleLearner, Scores
from unspool.tasks.layered import Reading

#: The id of all words, and of all characters, that have none of their own.
UNKNOWN = 0


class TaggerSettings(EncoderSettings):
    """An encoder that says something at every step."""

    effects = (
        *EncoderSettings.effects,
        # the others are for the layer that reads a word's characters, too
        Effect(
            ("layers", "bidirectional", "residual", "variational", "supervision", "gate_penalty"),
            "reader",
            ("recurrent",),
        ),
    )

    hidden: Size = Field(200, description="units of each layer and direction")
    dropout: Share | Literal["auto"] = Field(
        0.5, description="between layers, and before and after them; auto: a rate for each layer, by its activity"
    )
    characters: Count = Field(25, description="units, each way, that read a word's characters; 0: they are not read")
    word_dropout: Share = Field(0.05, description="words that training reads as unknown, by their characters alone")
    crf: bool = Field(
        True, description="a tag also depends on the one before, and only what its scheme permits is said"
    )
    reader: Literal["recurrent", "mlp"] = Field(
        "recurrent", description="recurrent: layers with memory; mlp reads each word by itself, and is there to compare"
    )


class Words(NamedTuple):
    """A batch of words, of which each form is spelled once."""

    ids: Tensor  # (time, rows)
    forms: Tensor  # (time, rows): which of the spellings is the word's
    characters: Tensor  # (characters, forms)
    lengths: Tensor  # of each form, in characters


class Said(NamedTuple):
    """The tags of a row, and how probable each of them is."""

    tags: NDArray[np.int64]
    probabilities: NDArray[np.float64]


class WordVectors(nn.Module):
    """A word's vector: its embedding, beside what a recurrent layer has come to at both ends of its spelling."""

    def __init__(self, settings: TaggerSettings, words: int, characters: int) -> None:
        super().__init__()
        self.word_dropout = settings.word_dropout
        self.embedding = nn.Embedding(words, embedding_width(settings))
        self.output_size = self.embedding.embedding_dim
        self.letters: nn.Embedding | None = None
        if settings.characters:
            self.letters = nn.Embedding(characters, settings.characters)
            one_layer = settings.model_copy(update={"hidden": settings.characters, "layers": 1})
            self.speller = make_body(one_layer, settings.characters, bidirectional=True)
            self.ends = LastState(2 * settings.characters, bidirectional=True)
            self.output_size += self.ends.output_size

    def forward(self, words: Words) -> Tensor:
        ids = words.ids
        if self.training and self.word_dropout:
            ids = ids.masked_fill(torch.rand(ids.shape, device=ids.device) < self.word_dropout, UNKNOWN)
        vectors: Tensor = self.embedding(ids)
        if self.letters is None:
            return vectors
        sequence, _ = self.speller(self.letters(words.characters), lengths=words.lengths)
        spelled = self.ends(sequence, lengths=words.lengths)
        # embedding, not an index: the gradient of rows that many words share is summed without sorting them
        return torch.cat((vectors, functional.embedding(words.forms, spelled)), -1)


class WordByWord(nn.Module):
    """In the place of an encoder, a network that knows one word at a time."""

    def __init__(self, settings: TaggerSettings, features: int) -> None:
        super().__init__()
        self.network = StatelessMLP(features, settings.hidden, settings.hidden)
        self.drop = nn.Dropout(0.0 if settings.dropout == "auto" else settings.dropout)
        self.output_size = settings.hidden

    def encode(self, inputs: Tensor, lengths: Tensor) -> Reading:
        """One sequence, as an encoder has it."""
        return Reading([self.network(self.drop(inputs), lengths=lengths)], None, None)


class Tagger(ExampleLearner):
    """log P(tags | words): the heads of all levels give scores (time, rows, tags), and share one chain of tags."""

    def __init__(
        self, settings: TaggerSettings, words: int, characters: int, tags: int, allowed: NDArray[np.bool_]
    ) -> None:
        super().__init__()
        recurrent = settings.reader == "recurrent"
        self.supervision = list(settings.supervised.values()) if recurrent else []
        self.words = WordVectors(settings, words, characters)
        width = self.words.output_size
        self.reader = Encoder(settings, features=width) if recurrent else WordByWord(settings, width)
        self.heads = nn.ModuleList(nn.Linear(self.reader.output_size, tags) for _ in (*self.supervision, None))
        self.crf = LinearChainCRF(tags, allowed=allowed) if settings.crf else None
        spread_weights(self, settings)

    def score(self, batch: Batch) -> Scores:
        found = self.reader.encode(self.words(batch.inputs), batch.lengths)
        levels = [head(self.reader.drop(one)) for head, one in zip(self.heads, found.sequences, strict=True)]
        return Scores(levels, found.sequences[-1], found.extra)

    def total(self, scores: Tensor, batch: Batch) -> Tensor:
        if self.crf is not None:
            return -self.crf.log_likelihood(scores, batch.targets, batch.lengths).sum()
        inside = valid_steps(batch.lengths, len(scores)).squeeze(-1)
        return functional.cross_entropy(scores[inside], batch.targets[inside], reduction="sum")

    def answer(self, scores: Tensor, batch: Batch) -> Sequence[Any]:
        if self.crf is None:
            highest = scores.double().softmax(-1).max(-1)
            rows = zip(highest.indices.unbind(1), highest.values.unbind(1), batch.lengths.tolist(), strict=True)
            return [Said(tags[:n].numpy(), p[:n].numpy()) for tags, p, n in rows]
        sequences, _ = self.crf.decode(scores, batch.lengths)
        marginals = self.crf.marginals(scores, batch.lengths).double().clamp(0.0, 1.0).numpy()
        found = []
        for row, sequence in enumerate(sequences):
            tags = np.array(sequence, np.int64)
            found.append(Said(tags, marginals[np.arange(len(tags)), row, tags]))
        return found
