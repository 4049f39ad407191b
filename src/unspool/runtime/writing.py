"""Writing: a text in the making, one token at a time, whoever takes the steps of the model."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from unspool.decoding.sampling import Sampling
from unspool.decoding.text_stream import TextStream
from unspool.runtime.arithmetic import log_softmax
from unspool.runtime.network import Array


class Writing:
    """A text that is being sampled: `draw` gives the token that the model reads next, `push` takes what it answers.

    Args:
        logits: Of the first token, (tokens,).
        count: The most tokens.
        sampling: How they are sampled.
        text: From tokens to text.
        random: The source of random numbers.

    Attributes:
        logits: Of the token that comes next; after `draw`, those that it was drawn from.
        tokens: Those drawn so far.

    Example:
        while not writing.done:
            piece = writing.push(session.step(writing.draw()))
        rest = writing.finish()
    """

    def __init__(
        self, logits: Array, count: int, sampling: Sampling, text: TextStream, random: np.random.Generator
    ) -> None:
        self.logits, self.sampling, self.tokens = logits, sampling, list[int]()
        self._count, self._text, self._random = count, text, random

    @property
    def stopped(self) -> bool:
        """Whether a stop string has ended the text."""
        return self._text.stopped

    @property
    def done(self) -> bool:
        """Whether no token comes any more."""
        return self.stopped or len(self.tokens) >= self._count

    def draw(self) -> int:
        """The next token."""
        return draw_together([self])[0]

    def push(self, logits: Array) -> str:
        """The text that is certain, from what the model answers to the token that was drawn last."""
        self.logits = logits
        return self._text.push(self.tokens[-1])

    def finish(self) -> str:
        """The text that was held back; nothing after a stop string."""
        return self._text.finish()

    def log_probabilities(self) -> Array:
        """Of each token, at the place of the one that comes next, by the model's own probabilities; in float64."""
        return log_softmax(self.logits.astype(np.float64))

    def uniform(self) -> float:
        """The random number of the next token."""
        return float(self._random.random(1)[0])


def draw_together(writings: Sequence[Writing]) -> list[int]:
    """The next token of several texts that are sampled in the same way: those that each would draw alone."""
    logits = np.stack([one.logits for one in writings])
    drawn = writings[0].sampling.draw(logits, np.array([one.uniform() for one in writings])).tolist()
    for one, token in zip(writings, drawn, strict=True):
        one.tokens.append(token)
    found: list[int] = drawn
    return found
