"""Defaults that depend on the data: one function from its size and kind to settings.

What the user gives always has precedence, and every other setting keeps the default of its declaration.
docs/choosing.md says why these values, and docs/results.md what they reach.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

#: Updates that a classifier of texts needs, by default, and the fewest and most epochs that they may take.
UPDATES, FEWEST_EPOCHS, MOST_EPOCHS = 1500, 4, 40
BATCH_SIZE = 32


#: Of every text.
OF_TEXTS = {
    "pooling": "max",
    "read_input": True,
    "embedding_std": 0.1,
    "dropout": 0.5,
    "label_smoothing": 0.1,
    "lr": 4e-3,
}
#: Of texts in words.
OF_WORDS = {"subwords": 20_000}


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


def choose_defaults(task: str, facts: DataFacts) -> Mapping[str, Any]:
    """The defaults that fit the data of a task; none where the declared ones do.

    Args:
        task: The name of the task.
        facts: The size and kind of the data.

    Returns:
        Settings by name.

    Example:
        >>> choose_defaults("classify", DataFacts(5_000, 10, 6, "words"))["pooling"]
        'max'
    """
    if task != "classify" or facts.unit == "steps":
        return {}
    return {**OF_TEXTS, **(OF_WORDS if facts.unit == "words" else {}), "epochs": _epochs(facts.examples)}


def _epochs(examples: int) -> float:
    """Passes that make about `UPDATES` updates: small data needs more of them, and they cost little."""
    return float(min(max(round(UPDATES * BATCH_SIZE / examples), FEWEST_EPOCHS), MOST_EPOCHS))
