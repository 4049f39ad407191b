"""Defaults that depend on the data: one function from its size and kind to settings.

What the user gives always has precedence, and every other setting keeps the default of its declaration.
docs/choosing.md says why these values, and docs/results.md what they reach.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

#: Of every text. A small initial embedding keeps rare words near zero, so that noise is not learned by heart. With
#: three steps of the input beside its output, the model contains a convolution and a bag of words.
OF_TEXTS = {"pooling": "max", "input_window": 3, "embedding_std": 0.1, "label_smoothing": 0.1, "lr": 4e-3}
#: Of texts in words, most of which are rare: n-grams stand in for words that were seen too seldom, and word dropout
#: teaches the model to read by them.
OF_WORDS = {"subwords": 20_000, "dropout": 0.5, "word_dropout": 0.05}
#: Of texts in characters or other tokens, all of which are frequent.
OF_CHARACTERS = {"dropout": 0.2}
#: Updates that words and characters need, and the fewest and most epochs that they may take.
UPDATES_OF_WORDS, UPDATES_OF_CHARACTERS, FEWEST_EPOCHS, MOST_EPOCHS = 1200, 6000, 4, 40


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


def choose_defaults(task: str, facts: DataFacts, examples_per_update: int = 32) -> Mapping[str, Any]:
    """The defaults that fit the data of a task; none where the declared ones do.

    Args:
        task: The name of the task.
        facts: The size and kind of the data.
        examples_per_update: `batch_size` times `grad_accum`.

    Returns:
        Settings by name.

    Example:
        >>> choose_defaults("classify", DataFacts(5_000, 10, 6, "words"))["pooling"]
        'max'
    """
    if task != "classify" or facts.unit == "steps":
        return {}
    updates_per_epoch = facts.examples / examples_per_update
    if facts.unit == "words":
        return {**OF_TEXTS, **OF_WORDS, "epochs": _epochs(UPDATES_OF_WORDS, updates_per_epoch)}
    return {**OF_TEXTS, **OF_CHARACTERS, "epochs": _epochs(UPDATES_OF_CHARACTERS, updates_per_epoch)}


def _epochs(updates: int, updates_per_epoch: float) -> float:
    """Passes that make so many updates: small data needs more of them, and they cost little."""
    return float(min(max(round(updates / updates_per_epoch), FEWEST_EPOCHS), MOST_EPOCHS))
