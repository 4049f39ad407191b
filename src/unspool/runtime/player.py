"""What the players of all kinds of networks have in common, and what they answer."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from unspool.runtime.network import Array

#: The target of an example whose label training never saw.
UNSEEN = -100


class Scores(NamedTuple):
    """The output of a network for a batch: `levels` has one entry, the scores that predictions are made of."""

    levels: list[Any]


class Inferred(NamedTuple):
    """What a network finds out about a batch."""

    loss: float | None  # summed over the units of the batch; None where targets are not known
    predictions: Sequence[Any]  # one per example


class TagPrediction(NamedTuple):
    """The tags of a sentence, and the probability of each of them."""

    tags: NDArray[np.int64]
    probabilities: NDArray[np.float64]


class JointScores(NamedTuple):
    """Scores of tags (time, batch, tags) and of labels (batch, labels)."""

    tags: Array
    labels: Array


class JointPrediction(NamedTuple):
    """The tags of a sentence, and the probabilities of all labels."""

    tags: TagPrediction
    labels: NDArray[np.float64]


class Player:
    """A network that answers what tasks ask of a model in evaluation, on NumPy arrays and without torch."""

    #: Players do not learn.
    training = False

    def eval(self) -> Self:
        """Nothing: a player is always in evaluation."""
        return self

    def train(self, mode: bool = True) -> Self:  # noqa: ARG002
        """Nothing: a player is always in evaluation."""
        return self


class ExamplePlayer(Player, ABC):
    """A network of examples.

    A batch has `inputs` (what the network reads, time first), `lengths` (of each example) and `targets` (None where
    they are not known), all NumPy arrays.
    """

    def infer(self, batch: Any) -> Inferred:
        """The loss of a batch, and the prediction for each of its examples."""
        scores = self.score(batch).levels[-1]
        loss = None if batch.targets is None else self.summed_loss(scores, batch)
        return Inferred(loss, self.predictions(scores, batch))

    @abstractmethod
    def score(self, batch: Any) -> Scores:
        """Run the network on a batch."""

    @abstractmethod
    def summed_loss(self, scores: Any, batch: Any) -> float:
        """The loss, summed over the units of the batch, in float64."""

    @abstractmethod
    def predictions(self, scores: Any, batch: Any) -> Sequence[Any]:
        """The prediction for each example."""


def as_lengths(lengths: Any) -> NDArray[np.int64]:
    """Lengths as whole numbers of 64 bits."""
    return np.asarray(lengths, np.int64)
