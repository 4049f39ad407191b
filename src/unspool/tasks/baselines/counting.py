"""Classification baselines by counting: the majority class, and n-grams of the texts of each label."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from unspool.data.sequences import Sequences
from unspool.tasks.baselines.ngram import NGram

#: Words of an n-gram: the predicted one and those before it.
ORDER = 3

Probabilities = NDArray[np.float64]


def majority(labels: NDArray[np.int64], classes: int, examples: int) -> Probabilities:
    """P(label) as in the training data, the same for each of some examples: (examples, classes)."""
    counts = np.bincount(labels, minlength=classes) + 1.0
    return np.tile(counts / counts.sum(), (examples, 1))


def by_ngrams(
    training: Sequences, labels: NDArray[np.int64], classes: int, tokens: int, texts: Sequences
) -> Probabilities:
    """P(label | text) ∝ P(label) ∏_t P(w_t | w_{t−2}, w_{t−1}; label), with one n-gram model per label.

    Args:
        training: Token ids of the training texts.
        labels: Their labels, from 0 to `classes` − 1.
        classes: The number of labels.
        tokens: The size of the vocabulary.
        texts: Token ids of the texts to classify.

    Returns:
        Probabilities (texts, classes).
    """
    border = np.full(ORDER - 1, tokens)  # a word that no text has, between texts: it hides the one before
    joined = np.concatenate([np.concatenate((border, text)) for text in texts])
    starts = np.concatenate(([0], np.cumsum(texts.lengths + ORDER - 1)[:-1]))
    own = joined != tokens
    logs = np.log(majority(labels, classes, len(texts)))
    for label in range(classes):
        model = NGram(ORDER, tokens + 1)
        for index in np.flatnonzero(labels == label):
            model.fit(training[int(index)])
        logs[:, label] += np.add.reduceat(np.where(own, model.log_probability(joined), 0.0), starts)
    weights = np.exp(logs - logs.max(1, keepdims=True))
    return np.asarray(weights / weights.sum(1, keepdims=True))
