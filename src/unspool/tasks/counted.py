"""Labels by counting: the commonest one, and n-grams of each label's texts, which need no network."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from unspool.data.sequences import Sequences
from unspool.nn import NGram

#: Words of an n-gram: the one that is foretold and those before it.
ORDER = 3

Probabilities = NDArray[np.float64]


def commonest(labels: NDArray[np.int64], classes: int, rows: int) -> Probabilities:
    """P(label) as it is in the training data, the same for each of some rows."""
    counts = np.bincount(labels, minlength=classes) + 1.0
    return np.tile(counts / counts.sum(), (rows, 1))


def by_ngrams(
    training: Sequences, labels: NDArray[np.int64], classes: int, tokens: int, texts: Sequences
) -> Probabilities:
    """P(label | text) ∝ P(label) ∏_t P(w_t | w_{t−2}, w_{t−1}; label), one counting model a label."""
    border = np.full(ORDER - 1, tokens)  # a word that no text has: what follows it begins anew
    joined = np.concatenate([np.concatenate((border, text)) for text in texts])
    starts = np.concatenate(([0], np.cumsum(texts.lengths + ORDER - 1)[:-1]))
    own = joined != tokens
    logs = np.log(commonest(labels, classes, len(texts)))
    for label in range(classes):
        model = NGram(ORDER, tokens + 1)
        for row in np.flatnonzero(labels == label):
            model.fit(training[int(row)])
        logs[:, label] += np.add.reduceat(np.where(own, model.log_probability(joined), 0.0), starts)
    weights = np.exp(logs - logs.max(1, keepdims=True))
    return np.asarray(weights / weights.sum(1, keepdims=True))
