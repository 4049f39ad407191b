"""Traces: what a model reads and predicts at each step, and the states and gates of its units meanwhile, as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from unspool.runtime.arithmetic import softmax
from unspool.runtime.explaining import main_stack
from unspool.runtime.network import Array
from unspool.runtime.run_player import RunPlayer
from unspool.runtime.session import Session
from unspool.runtime.tracing import Channel, list_channels
from unspool.server.batcher import Batcher
from unspool.server.jobs import Feed, checked
from unspool.server.refusals import unusable

#: Steps of one request that are traced at most, and those that are traced before others have their turn.
MOST_STEPS, CHUNK = 512, 64
#: Units of a layer that are shown, the first ones.
SHOWN = 64
#: Digits after the point of a state or gate.
DIGITS = 4

Step = dict[str, Any]


def channels(player: RunPlayer) -> list[Channel]:
    """The states and gates that a trace of this model has, in its order."""
    stack = main_stack(player.model)
    return [] if stack is None else list_channels(stack.stack)


def check_traced(steps: int, param: str) -> None:
    """Refuse more steps than are traced in one request."""
    if steps > MOST_STEPS:
        message = f"`{param}` has {steps:,} tokens or steps; {MOST_STEPS} are traced in one request. Send it in parts."
        raise unusable(message, param, "too_many_tokens")


class TracedFeed(Feed):
    """Steps of one session, each of which is told about.

    Args:
        session: Reads on.
        inputs: What the player's `encode` gave.
        player: That of the session.
        top: How many of the likeliest next tokens are told.
    """

    def __init__(self, session: Session, inputs: Any, player: RunPlayer, top: int) -> None:
        super().__init__(session, inputs)
        self._player, self._top = player, top
        self.steps: list[Step] = []

    def advance(self) -> int:
        inputs = self._next(CHUNK)
        before, position = self.session.logits(), self.session.position
        outputs, values = self.session.trace(inputs)
        self._output = checked(outputs)[-1]
        shown = show_values(values)
        if self._player.task.generates:
            self.steps += show_tokens(self._player, inputs, before, outputs, shown, self._top)
        else:
            self.steps += [{"output": row.tolist(), "values": own} for row, own in zip(outputs, shown, strict=True)]
        return self.session.position - position


class Follower:
    """Reads what another session writes, token by token, to tell what goes on inside.

    Args:
        batcher: The worker of the model.
        session: A fork of the session that writes, made before it writes.
        player: Its player.
        top: How many of the likeliest next tokens are told.
    """

    def __init__(self, batcher: Batcher, session: Session, player: RunPlayer, top: int) -> None:
        self._batcher, self._session, self._player, self._top = batcher, session, player, top

    async def read(self, token: int) -> Step:
        """What is told of the next token."""
        job = TracedFeed(self._session, np.array([[token]]), self._player, self._top)
        await self._batcher.run(job)
        return job.steps[0]


def show_values(values: Sequence[Array]) -> list[list[list[float]]]:
    """Values of channels (time, units), step by step: for each channel the first units."""
    rounded = [np.round(one[:, :SHOWN].astype(np.float64), DIGITS).tolist() for one in values]
    steps = len(values[0]) if values else 0
    return [[one[t] for one in rounded] for t in range(steps)]


def show_tokens(
    player: RunPlayer, inputs: Any, before: Array | None, logits: Array, values: Sequence[Any], top: int
) -> list[Step]:
    """Tokens that were read, how probable each was, and what is likely to follow."""
    tokens = np.asarray(inputs)[:, 0].tolist()
    probabilities = softmax(logits.astype(np.float64))
    expected = None if before is None else softmax(before.astype(np.float64))
    found: list[Step] = []
    for token, own, after in zip(tokens, values, probabilities, strict=True):
        known = None if expected is None else float(expected[token])
        told = {"token": token, "text": player.decode([token]), "probability": known}
        found.append({**told, "next": _likeliest(player, after, top), "values": own})
        expected = after
    return found


def _likeliest(player: RunPlayer, probabilities: Array, top: int) -> list[dict[str, Any]]:
    order = np.argsort(-probabilities, kind="stable")[:top].tolist()
    return [
        {"token": place, "text": player.decode([place]), "probability": float(probabilities[place])} for place in order
    ]
