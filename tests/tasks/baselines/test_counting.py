"""Labels by counting, against one model a label asked text by text."""

from __future__ import annotations

import numpy as np

from unspool.data.sequences import Sequences
from unspool.tasks.baselines.counting import ORDER, by_ngrams, majority
from unspool.tasks.baselines.ngram import NGram


def test_ngrams_of_each_label_are_asked_about_each_text_alone() -> None:
    chance = np.random.default_rng(0)
    training = Sequences.of([chance.integers(0, 5, chance.integers(1, 9)) for _ in range(40)])
    texts = Sequences.of([chance.integers(0, 5, chance.integers(1, 9)) for _ in range(10)])
    labels = chance.integers(0, 3, 40)
    found = by_ngrams(training, labels, 3, 5, texts)
    for row, text in enumerate(texts):
        logs = []
        for label in range(3):
            model = NGram(ORDER, 6)
            for own in np.flatnonzero(labels == label):
                model.fit(training[int(own)])
            prior = (np.sum(labels == label) + 1) / (40 + 3)
            logs.append(np.log(prior) + model.log_probability(text).sum())
        right = np.exp(logs) / np.exp(logs).sum()
        np.testing.assert_allclose(found[row], right, rtol=1e-10)


def test_the_commonest_label() -> None:
    np.testing.assert_allclose(majority(np.array([0, 0, 2]), 3, 2), [[3 / 6, 1 / 6, 2 / 6]] * 2)
