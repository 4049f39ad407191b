"""StackPlayer: layers of recurrences over each other, on NumPy arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from unspool.runtime.arithmetic import valid_steps, within
from unspool.runtime.network import Array, Layer, Stack
from unspool.runtime.recurrence import RecurrencePlayer

#: For each layer and each of its directions the states of the cell, every one (batch, width).
States = tuple[tuple[tuple[Array, ...], ...], ...]


class LayerPlayer:
    """One layer: one direction of time, or two side by side."""

    def __init__(self, layer: Layer, threads: int = 1) -> None:
        self.layer = layer
        self.directions = tuple(RecurrencePlayer(one, threads) for one in layer.directions)

    def run(
        self, x: Array, states: Sequence[Sequence[Array]], lengths: Array | None
    ) -> tuple[Array, tuple[tuple[Array, ...], ...]]:
        """Run over x (time, batch, width); the output, and the final states of each direction."""
        pairs = zip(self.directions, states, strict=True)
        found = [direction.run(x, start, lengths) for direction, start in pairs]
        outputs = [output for output, _ in found]
        output = outputs[0] if len(outputs) == 1 else np.concatenate(outputs, -1)
        if self.layer.residual:
            output = output + within(x, lengths)
        return output, tuple(final for _, final in found)


class StackPlayer:
    """Layers over each other.

    Args:
        stack: The layers.
        threads: The most threads that a call uses.

    Example:
        player = StackPlayer(stack)
        output, states = player.run(x, lengths=np.array([7, 4]))
    """

    def __init__(self, stack: Stack, threads: int = 1) -> None:
        self.stack = stack
        self.layers = tuple(LayerPlayer(layer, threads) for layer in stack.layers)
        self.dtype: np.dtype[Any] = np.result_type(*(one.dtype for layer in self.layers for one in layer.directions))

    def initial_states(self, rows: int) -> States:
        """The states before the first step, for a batch of `rows`."""
        return tuple(tuple(one.initial_states(rows) for one in layer.directions) for layer in self.layers)

    def run(self, x: Array, states: States | None = None, lengths: Array | None = None) -> tuple[Array, States]:
        """Run over a batch of sequences.

        Args:
            x: (time, batch, input_size).
            states: Those to start from; by default the initial ones.
            lengths: Steps of each sequence; by default all have every step.

        Returns:
            The output of the top layer (time, batch, width), and the final states.
        """
        start = self.initial_states(x.shape[1]) if states is None else states
        delay = self.stack.delay
        if not delay or not len(x):
            return self._run(x, start, lengths)
        steps = len(x)
        x = np.concatenate((within(x, lengths), np.zeros((delay, *x.shape[1:]), x.dtype)))
        later = None if lengths is None else np.where(lengths > 0, lengths + delay, 0)
        output, final = self._run(x, start, later)
        output = output[delay:]
        return output if lengths is None else output * valid_steps(lengths, steps), final

    def _run(self, x: Array, states: States, lengths: Array | None) -> tuple[Array, States]:
        rising, finals = [x], []
        for layer, start in zip(self.layers, states, strict=True):
            read = np.concatenate(rising[-2:], -1) if self.stack.skip and len(rising) > 1 else rising[-1]
            output, final = layer.run(read, start, lengths)
            rising.append(output)
            finals.append(final)
        return rising[-1], tuple(finals)
