"""The tokens of a batch as strings, for people to look at."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from unspool.data.vocabulary import Vocabulary

#: (time, batch)
Tokens = Sequence[Sequence[str]]


def decode_steps(ids: NDArray[np.int64], vocabulary: Vocabulary) -> Tokens:
    """The text of every id of (time, batch)."""
    known = {int(one): vocabulary.decode([int(one)]) for one in np.unique(ids)}
    return [[known[int(one)] for one in step] for step in ids]
