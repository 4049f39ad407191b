"""Single steps of one session: from one input to scores, in memory that is laid out once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import index
from typing import Any

import numpy as np

from unspool.errors import ArgumentError, ShapeError
from unspool.runtime.arithmetic import as_numbers
from unspool.runtime.network import Array, Embedding
from unspool.runtime.packing import LinearPlayer
from unspool.runtime.pooled import MemberPlayer
from unspool.runtime.running import Running
from unspool.runtime.stepper import StackStepper


def token_reader(embedding: Embedding, x: Array) -> Callable[[Any], None]:
    """What writes the vector of a token into x (1, width)."""
    refuse_ngrams(embedding)
    table, row, count = embedding.weight, x[0], len(embedding.weight)

    def read(token: Any) -> None:
        row[:] = table[check_token(token, count)]

    return read


def refuse_ngrams(embedding: Embedding | None) -> None:
    """Refuse single ids where a word's vector also has those of its n-grams, which an id does not tell."""
    if embedding is not None and embedding.ngrams is not None:
        problem = "need the spelling of each word, which an id does not tell"
        raise ArgumentError.of("subwords", len(embedding.ngrams), problem, "Use `feed` with text")


def check_token(token: Any, count: int) -> int:
    """The id of one of `count` tokens; True and False are none, although Python counts with them."""
    try:
        place = -1 if isinstance(token, bool) else index(token)
    except TypeError:
        place = -1
    if isinstance(token, str):
        problem = "is text, and a step is the id of one token"
        raise ArgumentError.of("token", token, problem, "Call `feed` with text, or step by the ids of `encode`")
    if not 0 <= place < count:
        problem = f"is not a token from 0 to {count - 1}"
        raise ArgumentError.of("token", token, problem, "Encode text with the model's own vocabulary")
    return place


def number_reader(x: Array) -> Callable[[Any], None]:
    """What writes a vector of numbers into x (1, width)."""
    row, dtype, shape = x[0], x.dtype, x.shape[1:]

    def read(given: Any) -> None:
        numbers = as_numbers("inputs", given, dtype)
        if numbers.shape != shape:
            raise ShapeError.of("x", numbers.shape, f"is not {shape}", "Give one number per feature")
        row[:] = numbers

    return read


class MemberSteps:
    """Single steps of one member of a pooled model: `step(x)` changes `memory` and writes `scores` (1, outputs).

    Args:
        player: The member.
        running: Its pooling, step by step.
        memory: What it remembers, as `MemberStream.start` gives it for one session; it is copied.
    """

    def __init__(self, player: MemberPlayer, running: Running, memory: Sequence[Array]) -> None:
        states = [state for layer in player.stack.initial_states(1) for state in layer[0]]
        stepper = StackStepper(player.stack, memory[: len(states)])
        rest = [np.array(part) for part in memory[len(states) :]]
        embedding = player.member.embedding
        self._read = number_reader(stepper.x) if embedding is None else token_reader(embedding, stepper.x)
        self._calls: list[Callable[[], Any]] = [stepper.step]
        self.memory = [*stepper.states, *rest]
        h, gathered = stepper.out, rest
        if player.merger is not None:
            past = rest[:1] if player.member.window > 1 else []
            h, gathered = self._merge(player.merger, h, stepper.x, past), rest[len(past) :]
        pooled = self._keep(running.onto(h, gathered))
        self.scores = self._keep(player.head.onto(pooled))

    def step(self, x: Any) -> None:
        """Read one step."""
        self._read(x)
        for call in self._calls:
            call()

    def _keep(self, made: tuple[Callable[[], Any], Array]) -> Array:
        """Call it at every step; where it writes."""
        self._calls.append(made[0])
        return made[1]

    def _merge(self, merger: LinearPlayer, h: Array, x: Array, past: Sequence[Array]) -> Array:
        """relu(merger([h; x; past])) at every step, after which x is the latest of the past."""
        wide = np.concatenate((h, x, *past), -1)
        ends = h.shape[1], h.shape[1] + x.shape[1]
        to_merged, merged = merger.onto(wide)
        shifted = wide[:, ends[0] : wide.shape[1] - x.shape[1]]

        def merge() -> None:
            wide[:, : ends[0]] = h
            wide[:, ends[0] : ends[1]] = x
            for part in past:
                wide[:, ends[1] :] = part
                part[:] = shifted
            to_merged()
            np.maximum(merged, 0, out=merged)

        self._calls.append(merge)
        return merged
