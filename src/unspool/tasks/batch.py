"""What tasks give to their models and get from them: plain containers of NumPy arrays, or of tensors made of these."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

#: The target of an example whose label training never saw. It is the number that torch's losses ignore.
UNSEEN = -100
#: Ids of both sides of pairs that stand for no text, and the first that does.
PADDING, START, END, FIRST = range(4)

#: An array or, on its way into a torch model, a tensor.
Numbers = Any


class Batch(NamedTuple):
    """Some examples, padded."""

    inputs: Any  # what the model reads, time first
    lengths: Numbers  # of each example
    targets: Any  # None where they are not known
    units: float  # by which a sum of losses is divided: where processes share a batch, its units / processes
    steps: float | None = None  # where processes share a batch: its steps / processes

    def penalty_share(self) -> float:
        """How much a mean over the steps of these examples counts, so that that of all processes is over all steps."""
        return 1.0 if self.steps is None else float(self.lengths.sum()) / self.steps


class SpelledWords(NamedTuple):
    """A batch of words, and what finds their n-grams, which only an embedding with `subwords` reads.

    `spell` returns which of the batch's different forms each word is, (time, batch); the hashes of all forms, one form
    after the other; and where those of each form start.
    """

    ids: Numbers  # (time, batch)
    spell: Callable[[], Iterable[NDArray[np.int64]]]


class WordBatch(NamedTuple):
    """A batch of words; the characters of each different word are there once."""

    ids: Numbers  # (time, batch)
    forms: Numbers  # (time, batch): which of the different words it is
    characters: Numbers  # (characters, forms)
    lengths: Numbers  # of each form, in characters


class TagPrediction(NamedTuple):
    """The tags of a sentence, and the probability of each of them."""

    tags: NDArray[np.int64]
    probabilities: NDArray[np.float64]


class JointTargets(NamedTuple):
    """The tags (time, batch) and the labels (batch) of sentences."""

    tags: Numbers
    labels: Numbers


class JointPrediction(NamedTuple):
    """The tags of a sentence, and the probabilities of all labels."""

    tags: TagPrediction
    labels: NDArray[np.float64]


class Window(NamedTuple):
    """The input of forecasts, standardized."""

    past: Numbers  # (lookback, batch, targets + covariates)
    future: Numbers  # (horizon, batch, future covariates)
    unit: Numbers  # (batch, targets): the mean change over a season, in which errors are measured
