"""StackStepper: one step of one-directional layers at a time, in memory that is laid out once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from unspool.errors import ArgumentError
from unspool.runtime.network import Array, Stack
from unspool.runtime.recurrence import RecurrencePlayer
from unspool.runtime.stack import StackPlayer, States


def check_streaming(stack: Stack) -> None:
    """Refuse layers that cannot be played step by step.

    Raises:
        ArgumentError: They read a sequence from both ends, or ahead of the step that their output is for.
    """
    if any(len(layer.directions) > 1 or layer.directions[0].reverse for layer in stack.layers):
        problem = "reads every sequence from both ends, so that it needs the whole of it"
        raise ArgumentError.of(
            "bidirectional", True, problem, "Predict whole sequences, or train with `bidirectional=False`"
        )
    if stack.delay:
        problem = f"reads {stack.delay} step(s) ahead, so that it needs the whole sequence"
        raise ArgumentError.of(
            "time_delay", stack.delay, problem, "Predict whole sequences, or train with `time_delay=0`"
        )


def flatten(states: States) -> list[Array]:
    """The states of one-directional layers, one after the other."""
    return [state for layer in states for state in layer[0]]


def unflatten(stack: StackPlayer, arrays: Sequence[Array]) -> States:
    """The opposite of `flatten`."""
    rest = iter(arrays)
    return tuple((tuple(next(rest) for _ in layer.directions[0].recurrence.state_sizes),) for layer in stack.layers)


class StackStepper:
    """Single steps of some rows: `x` is read, `out` and `states` are written in place by `step()`.

    Args:
        stack: One-directional layers.
        states: Those to start from, as `flatten` gives them; they are copied.

    Attributes:
        x: The input, (batch, input_size).
        out: The output, (batch, width).
        states: Before `step()` those to start from, then those after it.

    Example:
        stepper = StackStepper(stack, flatten(stack.initial_states(1)))
        stepper.x[:] = vector
        stepper.step()
    """

    def __init__(self, stack: StackPlayer, states: Sequence[Array]) -> None:
        rows, given = len(states[0]), iter(states)
        self.x = np.zeros((rows, stack.stack.input_size), stack.dtype)
        self.states: list[Array] = []
        self._calls: list[Callable[[], Any]] = []
        rising = [self.x]
        for layer in stack.layers:
            read = self._join(rising[-2:]) if stack.stack.skip and len(rising) > 1 else rising[-1]
            one = LayerSteps(layer.directions[0], read)
            for state in one.states:
                state[:] = next(given)
            self.states += one.states
            self._calls.append(one.step)
            rising.append(self._add(one.out, read) if layer.layer.residual else one.out)
        self.out = rising[-1]
        self.step: Callable[[], Any] = self._calls[0] if len(self._calls) == 1 else self._run

    def _run(self) -> None:
        for call in self._calls:
            call()

    def _join(self, parts: Sequence[Array]) -> Array:
        """Memory that holds arrays side by side, at every step."""
        joined = np.concatenate(parts, -1)
        self._calls.append(partial(np.concatenate, tuple(parts), -1, out=joined))
        return joined

    def _add(self, one: Array, other: Array) -> Array:
        """Memory that holds a sum, at every step."""
        total = np.zeros_like(one)
        self._calls.append(partial(np.add, one, other, out=total))
        return total


class LayerSteps:
    """Single steps of one layer, whose input stands in `read`."""

    def __init__(self, player: RecurrencePlayer, read: Array) -> None:
        self._player, self._read = player, read
        if player.packed is not None:
            stepper = player.packed.stepper(len(read), read)
            self.states, self.out, self.step = stepper.states, stepper.out, stepper.step
            return
        self.states = [np.array(state) for state in player.initial_states(len(read))]
        self.out = np.zeros((len(read), player.recurrence.output_size), player.dtype)
        self.step = self._step

    def _step(self) -> None:
        out, states = self._player.run(self._read[None], self.states)
        self.out[:] = out[0]
        for place, state in zip(self.states, states, strict=True):
            place[:] = state
