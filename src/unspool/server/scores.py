"""Scores: how probable the tokens of a prompt were to the model that reads them."""

from __future__ import annotations

from typing import Any

import numpy as np

from unspool.runtime.arithmetic import log_softmax
from unspool.runtime.session import Session
from unspool.server.jobs import Feed, Token, checked, rank

#: Tokens that are scored before others have their turn: each has a probability of every token there is.
CHUNK = 64


class ScoredFeed(Feed):
    """Tokens of one session, each with its log-probability; the first of a text has none.

    Args:
        session: Reads them.
        inputs: What the player's `encode` gave.
        ranked: Of how many of the likeliest tokens log-probabilities are wanted beside it.

    Attributes:
        scores: One entry per token, whose piece of text is not known here.
    """

    def __init__(self, session: Session, inputs: Any, ranked: int) -> None:
        super().__init__(session, inputs)
        self._ranked = ranked
        self.scores: list[Token] = []

    def advance(self) -> int:
        before, inputs = self.session.logits(), self._next(CHUNK)
        outputs = checked(self.session.read_each(inputs))
        self._output = outputs[-1]
        expected = [before, *outputs[:-1]]
        for token, logits in zip(np.asarray(inputs)[:, 0].tolist(), expected, strict=True):
            found = (None, ()) if logits is None else rank(log_softmax(logits.astype(np.float64)), token, self._ranked)
            self.scores.append(Token("", token, *found))
        return len(inputs)
