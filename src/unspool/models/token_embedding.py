"""TokenEmbedding: the vector of a token and, of words, what their spelling adds to it."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from unspool.data.inputs import Inputs, TextInputs
from unspool.data.vocabulary import Listed, Words
from unspool.errors import ArgumentError
from unspool.settings.model import PooledSettings
from unspool.tasks.batch import SpelledWords

#: The id of all words, characters and other listed tokens that have none of their own.
UNKNOWN = 0


def check_tokens(settings: PooledSettings, inputs: Inputs) -> None:
    """Refuse settings of the embedding that its tokens cannot have.

    Args:
        settings: `subwords` is for words; `word_dropout` for tokens among which one stands for all that are unknown.
        inputs: What the tokens are.

    Raises:
        ArgumentError: The name of the setting and what to do.
    """
    vocabulary = inputs.vocabulary if isinstance(inputs, TextInputs) else None
    if settings.subwords and not isinstance(vocabulary, Words):
        problem = f"has no effect where steps are {inputs.unit}: only words have n-grams"
        raise ArgumentError.of("subwords", settings.subwords, problem, "Leave it out, or give `tokenizer='word'`")
    if settings.word_dropout and not isinstance(vocabulary, Listed):
        problem = f"has no effect where steps are {inputs.unit}: none of them stands for the unknown"
        raise ArgumentError.of("word_dropout", settings.word_dropout, problem, "Leave it out")


def drop_words(ids: Tensor, fraction: float) -> Tensor:
    """Ids of words, some of which are read as unknown.

    Args:
        ids: Of any shape.
        fraction: The probability with which each is.

    Example:
        drop_words(torch.tensor([[3, 7]]), 0.5)  # perhaps [[0, 7]]
    """
    return ids.masked_fill(torch.rand(ids.shape, device=ids.device) < fraction, UNKNOWN) if fraction else ids


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
        if self.training:
            ids = drop_words(ids, self.word_dropout)
        vectors = super().forward(ids)
        if self.ngrams is None or not isinstance(inputs, SpelledWords):
            return vectors
        forms, ngrams, starts = (torch.from_numpy(one).to(ids.device) for one in inputs.spell())
        spelled = self.ngrams(ngrams % self.ngrams.num_embeddings, starts)
        # embedding, not an index: the gradients of a form that many words share are summed without sorting
        return vectors + functional.embedding(forms, spelled)
