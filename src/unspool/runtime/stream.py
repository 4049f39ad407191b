"""Streams: networks that are played step by step, whose whole memory is a list of arrays with a row per session."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from unspool.errors import ArgumentError, ShapeError
from unspool.runtime.arithmetic import as_numbers, log_softmax, log_sum_exp, sigmoid, softmax
from unspool.runtime.embedding import embed
from unspool.runtime.language import LanguagePlayer
from unspool.runtime.network import Array
from unspool.runtime.player import Player
from unspool.runtime.pooled import MemberPlayer, PooledPlayer
from unspool.runtime.quick import MemberSteps, check_token, token_reader
from unspool.runtime.running import Running
from unspool.runtime.stepper import StackStepper, check_streaming, flatten, unflatten
from unspool.runtime.tracing import trace_stack

#: What a session remembers: arrays of (sessions, width).
Memory = list[Array]


class Stream(ABC):
    """A network as sessions play it. Fed one step or many at a time, alone or together, it gives the same bits."""

    #: Whether a step is the id of a token.
    reads_ids = False
    #: How many tokens there are, where a step is one, of a language model or not; 0 where it is numbers.
    tokens = 0
    #: Numbers of the output of one step.
    width: int

    @abstractmethod
    def start(self, rows: int) -> Memory:
        """What sessions remember before the first step."""

    @abstractmethod
    def run(self, inputs: Any, memory: Memory) -> tuple[Array, Memory]:
        """The output (time, sessions, width) of inputs with the same first two axes, and what is remembered then."""

    def read(self, inputs: Any, memory: Memory) -> tuple[Array, Memory]:
        """As `run`, the output (sessions, width) after the last step alone."""
        output, memory = self.run(inputs, memory)
        return output[-1], memory

    @abstractmethod
    def trace(self, inputs: Any, memory: Memory) -> list[Array]:
        """The values (time, units) of every channel while one session reads, as `trace_stack` has them."""

    @abstractmethod
    def check(self, one: Any) -> Any:
        """One step of one session; refused where `run` would refuse it."""

    @abstractmethod
    def quick(self, memory: Memory) -> tuple[Callable[[Any], Array], Memory]:
        """What takes one step of one session, from one input to the output (width,), and the memory that it changes."""


class LanguageStream(Stream):
    """Ids of tokens in, logits of the next token out. It remembers the states, and the output of the top layer."""

    reads_ids = True

    def __init__(self, player: LanguagePlayer) -> None:
        check_streaming(player.network.stack)
        self.player, self.tokens = player, len(player.network.embedding.weight)
        self.width = self.tokens

    def start(self, rows: int) -> Memory:
        stack = self.player.stack
        return [*flatten(stack.initial_states(rows)), np.zeros((rows, stack.stack.output_size), stack.dtype)]

    def run(self, inputs: Any, memory: Memory) -> tuple[Array, Memory]:
        stack = self.player.stack
        h, states = stack.run(embed(self.player.network.embedding, inputs), unflatten(stack, memory[:-1]))
        return self.player.head(h), [*flatten(states), h[-1].copy() if len(h) else memory[-1]]

    def read(self, inputs: Any, memory: Memory) -> tuple[Array, Memory]:
        """Logits of the last step alone: those of all steps may not fit into memory."""
        stack = self.player.stack
        h, states = stack.run(embed(self.player.network.embedding, inputs), unflatten(stack, memory[:-1]))
        last: Array = h[-1].copy()
        return self.player.head(last), [*flatten(states), last]

    def trace(self, inputs: Any, memory: Memory) -> list[Array]:
        stack = self.player.stack
        return trace_stack(stack, embed(self.player.network.embedding, inputs), unflatten(stack, memory[:-1]))

    def check(self, one: Any) -> Any:
        return check_token(one, len(self.player.network.embedding.weight))

    def logits(self, memory: Memory) -> Array:
        """Logits (sessions, tokens) of what follows all that was fed."""
        return self.player.head(memory[-1])

    def quick(self, memory: Memory) -> tuple[Callable[[Any], Array], Memory]:
        stepper = StackStepper(self.player.stack, memory[:-1])
        stepper.out[:] = memory[-1]
        read, layers = token_reader(self.player.network.embedding, stepper.x), stepper.step
        to_logits, logits = self.player.head_onto(stepper.out)
        row: Array = logits[0]

        def step(token: Any) -> Array:
            read(token)
            layers()
            to_logits()
            return row.copy()

        return step, [*stepper.states, stepper.out]


class PooledStream(Stream):
    """One example, step by step; after each of them the prediction for all so far.

    It remembers, for each member, the states, the inputs within its window, and what its pooling has gathered.
    """

    def __init__(self, player: PooledPlayer, undo: Callable[[Array], Array] | None = None) -> None:
        for member in player.network.members:
            check_streaming(member.stack)
        self.player, self._undo = player, undo
        self.members = [MemberStream(member) for member in player.members]
        embedding = player.network.members[0].embedding
        self.tokens = 0 if embedding is None else len(embedding.weight)
        self.width = len(player.network.members[0].head.weight)

    def start(self, rows: int) -> Memory:
        return [part for member in self.members for part in member.start(rows)]

    def run(self, inputs: Any, memory: Memory) -> tuple[Array, Memory]:
        rest, found, after = list(memory), [], []
        for member in self.members:
            own, rest = rest[: member.count], rest[member.count :]
            scores, new = member.run(inputs, own)
            found.append(scores)
            after += new
        return self._predict(found), after

    def trace(self, inputs: Any, memory: Memory) -> list[Array]:
        return self.members[0].trace(inputs, memory)

    def check(self, one: Any) -> Any:
        member = self.members[0].player.member
        if member.embedding is not None:
            return check_token(one, len(member.embedding.weight))
        numbers = as_numbers("x", one, self.members[0].stack.dtype)
        if numbers.shape != (member.stack.input_size,) or not np.isfinite(numbers).all():
            problem = f"is not {member.stack.input_size} finite number(s)"
            raise ShapeError.of("x", numbers.shape, problem, "Give one per feature")
        return numbers

    def quick(self, memory: Memory) -> tuple[Callable[[Any], Array], Memory]:
        rest, members = list(memory), []
        for member in self.members:
            own, rest = rest[: member.count], rest[member.count :]
            members.append(MemberSteps(member.player, member.running, own))

        def step(one: Any) -> Array:
            for member in members:
                member.step(one)
            found: Array = self._predict([member.scores for member in members])[0]
            return found

        return step, [part for member in members for part in member.memory]

    def _predict(self, scores: Sequence[Array]) -> Array:
        wide = [one.astype(np.float64) for one in scores]
        if self.player.network.output == "softmax":
            mean = wide[0] if len(wide) == 1 else log_sum_exp(log_softmax(np.stack(wide)), 0)
            return softmax(mean)
        if self.player.network.output == "sigmoid":
            return sigmoid(wide[0])
        return wide[0] if self._undo is None else self._undo(wide[0])


class MemberStream:
    """One member of a pooled model: scores after each step."""

    def __init__(self, player: MemberPlayer) -> None:
        self.player, self.stack = player, player.stack
        self.lags = max(player.member.window - 1, 0)
        self.running = Running(player.member.pooling, player.stack.stack.output_size)
        self.count = len(self.start(1))

    def start(self, rows: int) -> Memory:
        wide = self.lags * self.stack.stack.input_size
        past = [np.zeros((rows, wide), self.stack.dtype)] if wide else []
        return [*flatten(self.stack.initial_states(rows)), *past, *self.running.start(rows, self.stack.dtype)]

    def trace(self, inputs: Any, memory: Memory) -> list[Array]:
        """The values of the layers' channels while one session reads."""
        return trace_stack(self.stack, self.player.read(inputs), unflatten(self.stack, memory))

    def run(self, inputs: Any, memory: Memory) -> tuple[Array, Memory]:
        stack, x = self.stack, self.player.read(inputs)
        count = len(flatten(stack.initial_states(1)))
        h, states = stack.run(x, unflatten(stack, memory[:count]))
        h, past = self._merge(h, x, memory[count : count + bool(self.lags)])
        pooled, gathered = self.running.run(h, memory[count + bool(self.lags) :])
        return self.player.head(pooled), [*flatten(states), *past, *gathered]

    def _merge(self, h: Array, x: Array, past: Memory) -> tuple[Array, Memory]:
        """What the pooling reads, and the last inputs within the window, the latest first."""
        if self.player.merger is None:
            return h, past
        (steps, rows, width), lags = x.shape, self.lags
        earlier = past[0].reshape(rows, lags, width)[:, ::-1].swapaxes(0, 1) if past else x[:0]
        every = np.concatenate((earlier, x))
        views = [every[lags - lag : lags - lag + steps] for lag in range(lags + 1)]
        merged = np.maximum(self.player.merger(np.concatenate((h, *views), -1)), 0)
        latest = every[len(every) - lags :][::-1].swapaxes(0, 1).reshape(rows, lags * width)
        return merged, [np.ascontiguousarray(latest)] if past else []


def make_stream(player: Player, undo: Callable[[Array], Array] | None = None) -> Stream:
    """The stream of a network's player.

    Args:
        player: What `make_player` gives.
        undo: For numbers: from standardized predictions to those of the data.

    Raises:
        ArgumentError: The network needs whole sequences.
    """
    if isinstance(player, LanguagePlayer):
        return LanguageStream(player)
    if isinstance(player, PooledPlayer):
        return PooledStream(player, undo)
    kind = type(player).__name__.removesuffix("Player").lower()
    problem = "needs whole sequences: what it predicts depends on what comes after"
    raise ArgumentError.of("model", f"a {kind}", problem, "Predict with whole sequences")
