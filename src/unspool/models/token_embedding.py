"""TokenEmbedding: the vector of a token and, of words, what their spelling adds to it."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from unspool.settings.model import PooledSettings

#: The id of all tokens that have none of their own.
UNKNOWN = 0


class SpelledWords(NamedTuple):
    """A batch of words; the n-grams of each different form are there once."""

    ids: Tensor  # (time, batch)
    forms: Tensor  # (time, batch): which of the different forms it is
    ngrams: Tensor  # hashes of all forms, one form after the other
    starts: Tensor  # of each form in `ngrams`


class TokenEmbedding(nn.Embedding):
    """e(w) = E[w] + mean over the n-grams g of w of G[g], where n-grams share the rows of G by their hash.

    Without `subwords`, or for tokens that are not words, e(w) = E[w].

    Args:
        settings: `subwords` is the number of rows of G, `embedding_std` the standard deviation of E and G at the start,
            `word_dropout` the fraction of tokens read as unknown in training: of words, their n-grams are left.
        tokens: The rows of E.
        width: Of a vector.
    """

    def __init__(self, settings: PooledSettings, tokens: int, width: int) -> None:
        super().__init__(tokens, width)
        self.word_dropout, std = settings.word_dropout, settings.embedding_std
        if std != 1:  # what torch draws already
            nn.init.normal_(self.weight, std=std)
        self.ngrams: nn.EmbeddingBag | None = None
        if settings.subwords:
            self.ngrams = nn.EmbeddingBag(settings.subwords, width, mode="mean")
            nn.init.normal_(self.ngrams.weight, std=std)

    def forward(self, inputs: Tensor | SpelledWords) -> Tensor:
        ids = inputs.ids if isinstance(inputs, SpelledWords) else inputs
        if self.training and self.word_dropout:
            ids = ids.masked_fill(torch.rand(ids.shape, device=ids.device) < self.word_dropout, UNKNOWN)
        vectors = super().forward(ids)
        if self.ngrams is None or not isinstance(inputs, SpelledWords):
            return vectors
        spelled = self.ngrams(inputs.ngrams % self.ngrams.num_embeddings, inputs.starts)
        # embedding, not an index: the gradients of a form that many words share are summed without sorting
        return vectors + functional.embedding(inputs.forms, spelled)
