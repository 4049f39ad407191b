"""Embeddings on NumPy arrays: vectors of tokens and of words with their spelling."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from unspool.errors import ArgumentError
from unspool.runtime.network import Array, Embedding


def embed(embedding: Embedding, inputs: Any) -> Array:
    """The vectors of tokens.

    Args:
        embedding: Their table, and that of n-grams.
        inputs: Ids of any shape; or words with `ids` and `spell()`, which gives the form of each word, the hashes of
            the n-grams of all forms, one form after the other, and where those of each form start.

    Returns:
        An array of the ids' shape with one axis more.
    """
    ids = np.asarray(inputs.ids if hasattr(inputs, "spell") else inputs)
    vectors = embedding.weight[check_ids(ids, len(embedding.weight))]
    if embedding.ngrams is None or not hasattr(inputs, "spell"):
        return np.asarray(vectors)
    forms, ngrams, starts = (np.asarray(one) for one in inputs.spell())
    spelled = _means(embedding.ngrams[ngrams % len(embedding.ngrams)], starts)
    return np.asarray(vectors + spelled[forms])


def check_ids(ids: NDArray[Any], size: int) -> NDArray[Any]:
    """Ids from 0 to `size` − 1; others are refused, as NumPy would count negative ones from the end."""
    if ids.size and (ids.dtype.kind not in "iu" or int(ids.min()) < 0 or int(ids.max()) >= size):
        problem = f"are not integers from 0 to {size - 1}"
        raise ArgumentError.of("ids", ids.ravel()[:8].tolist(), problem, "Encode them with the model's own vocabulary")
    return ids.astype(np.int64, copy=False)


def _means(vectors: Array, starts: NDArray[Any]) -> Array:
    """The mean of each run of vectors; zero for a run of none."""
    counts = np.diff(np.append(starts, len(vectors)))
    sums = np.zeros((len(starts), vectors.shape[1]), vectors.dtype)
    filled = counts > 0  # empty runs add nothing to those before them
    if filled.any():
        sums[filled] = np.add.reduceat(vectors, starts[filled], axis=0)
    return np.asarray(sums / np.maximum(counts, 1)[:, None].astype(vectors.dtype))
