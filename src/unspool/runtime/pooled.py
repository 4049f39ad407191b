"""PooledPlayer: one prediction for a whole sequence: probabilities of labels, or numbers."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from unspool.runtime.arithmetic import as_numbers, cross_entropy, log_softmax, log_sum_exp, sigmoid, softmax, softplus
from unspool.runtime.embedding import embed
from unspool.runtime.network import Array, Member, Pooled
from unspool.runtime.options import PLAIN, PlayOptions
from unspool.runtime.packing import LinearPlayer, play_linear
from unspool.runtime.player import ExamplePlayer, Scores, as_lengths
from unspool.runtime.pooling import pool
from unspool.runtime.stack import StackPlayer
from unspool.tasks.batch import UNSEEN


class MemberPlayer:
    """One member: scores of sequences."""

    def __init__(self, member: Member, options: PlayOptions = PLAIN) -> None:
        self.member, self.stack = member, StackPlayer(member.stack, options)
        self.merger, self.head = play_linear(member.merger, options), LinearPlayer(member.head, options)

    def read(self, inputs: Any) -> Array:
        """What the layers read, (time, batch, width)."""
        embedding = self.member.embedding
        return as_numbers("inputs", inputs, self.stack.dtype) if embedding is None else embed(embedding, inputs)

    def score(self, inputs: Any, lengths: Array) -> Array:
        """Scores (batch, outputs)."""
        member, x = self.member, self.read(inputs)
        h, _ = self.stack.run(x, lengths=lengths)
        if self.merger is not None:
            past = [_later(x, lag) for lag in range(member.window)]
            h = np.maximum(self.merger(np.concatenate((h, *past), -1)), 0)
        return self.head(pool(member.pooling, h, lengths))


class PooledPlayer(ExamplePlayer):
    """Scores (batch, outputs) of sequences; of several members, the logarithm of their mean probabilities.

    Args:
        network: The model.
        undo: For numbers: from standardized ones (batch, outputs) to those of the data.
        options: How it is played.
    """

    def __init__(
        self, network: Pooled, undo: Callable[[Array], Array] | None = None, options: PlayOptions = PLAIN
    ) -> None:
        self.network, self._undo = network, undo
        self.members = tuple(MemberPlayer(member, options) for member in network.members)

    def score(self, batch: Any) -> Scores:
        lengths = as_lengths(batch.lengths)
        scores = [member.score(batch.inputs, lengths) for member in self.members]
        if len(scores) == 1:
            return Scores(scores)
        mean = log_sum_exp(log_softmax(np.stack(scores)), 0) - scores[0].dtype.type(math.log(len(scores)))
        return Scores([mean])

    def summed_loss(self, scores: Array, batch: Any) -> float:
        if self.network.output == "softmax":
            return cross_entropy(scores, batch.targets, UNSEEN)
        wide, targets = scores.astype(np.float64), np.asarray(batch.targets, np.float64)
        if self.network.output == "sigmoid":
            return float((softplus(wide) - wide * targets).sum())
        return float(np.square(wide - targets).sum() / wide.shape[-1])

    def predictions(self, scores: Array, batch: Any) -> Sequence[Any]:  # noqa: ARG002
        wide = scores.astype(np.float64)
        if self.network.output == "softmax":
            return list(softmax(wide))
        if self.network.output == "sigmoid":
            return list(sigmoid(wide))
        return list(wide if self._undo is None else self._undo(wide))


def _later(x: Array, lag: int) -> Array:
    """X `lag` steps later, after zeros."""
    return np.concatenate((np.zeros_like(x[:lag]), x[: len(x) - lag])) if lag else x
