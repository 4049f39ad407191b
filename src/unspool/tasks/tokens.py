"""The tokens of a batch as strings, for people to look at."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from unspool.data.vocabulary import Vocabulary

#: (time, batch)
Tokens = Sequence[Sequence[str]]


def decode_steps(ids: Tensor, vocabulary: Vocabulary) -> Tokens:
    """The text of every id of (time, batch)."""
    known = {int(one): vocabulary.decode([int(one)]) for one in ids.unique()}
    return [[known[int(one)] for one in step] for step in ids]
