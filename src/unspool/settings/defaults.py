"""Defaults that depend on the data: one function from its size and kind to settings.

What the user gives always has precedence, and every other setting keeps the default of its declaration.
docs/choosing.md says why these values, and docs/results.md what they reach.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

#: Of every text. A small initial embedding keeps rare words near zero, so that noise is not learned by heart. With
#: three steps of the input beside its output, the model contains a convolution and a bag of words.
OF_TEXTS = {"pooling": "max", "input_window": 3, "embedding_std": 0.1}
#: Of texts in words, most of which are rare: n-grams stand in for words that were seen too seldom, and word dropout
#: teaches the model to read by them. What one small network learns by heart, the mean of three knows better.
OF_WORDS = {
    **{"members": 3, "hidden": 64, "embedding": 128, "subwords": 10_000},
    **{"dropout": 0.5, "word_dropout": 0.05, "mixup": 1.0, "lr": 5e-3},
}
#: Of texts in characters or other tokens, all of which are frequent.
OF_CHARACTERS = {"dropout": 0.2, "label_smoothing": 0.1, "lr": 4e-3}
#: Sequences per batch, and updates.
BATCH_OF_WORDS, UPDATES_OF_WORDS = 64, 600
BATCH_OF_CHARACTERS, UPDATES_OF_CHARACTERS = 32, 6000
#: The fewest and most epochs that these updates may take.
FEWEST_EPOCHS, MOST_EPOCHS = 4, 40


class DataFacts(NamedTuple):
    """The size and kind of training data.

    Attributes:
        examples: How many sequences there are.
        steps: Of a typical sequence, the median.
        outputs: How many labels there are.
        unit: What a step is, in the plural: "words", "characters", or "steps" for numbers.
    """

    examples: int
    steps: int
    outputs: int
    unit: str

    def describe(self) -> str:
        """The facts in words."""
        return f"{self.examples:,} examples of about {self.steps:,} {self.unit}, {self.outputs} labels"


def choose_defaults(
    task: str, facts: DataFacts, batch_size: int | None = None, grad_accum: int = 1
) -> Mapping[str, Any]:
    """The defaults that fit the data of a task; none where the declared ones do.

    Args:
        task: The name of the task.
        facts: The size and kind of the data.
        batch_size: Sequences per batch, if the user gave it.
        grad_accum: Batches per update.

    Returns:
        Settings by name.

    Example:
        >>> choose_defaults("classify", DataFacts(5_000, 10, 6, "words"))["pooling"]
        'max'
    """
    if task != "classify" or facts.unit == "steps":
        return {}
    if facts.unit == "words":
        kind, batch, updates = OF_WORDS, batch_size or BATCH_OF_WORDS, UPDATES_OF_WORDS
    else:
        kind, batch, updates = OF_CHARACTERS, batch_size or BATCH_OF_CHARACTERS, UPDATES_OF_CHARACTERS
    epochs = _epochs(updates, facts.examples / (batch * grad_accum))
    return {**OF_TEXTS, **kind, "batch_size": batch, "epochs": epochs}


def _epochs(updates: int, updates_per_epoch: float) -> float:
    """Passes that make so many updates: small data needs more of them, and they cost little."""
    return float(min(max(round(updates / updates_per_epoch), FEWEST_EPOCHS), MOST_EPOCHS))
