"""RecurrencePlayer: one cell over time on NumPy arrays, by its kernel where there is one, else by its equations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from unspool.cells.evaluate import Evaluator
from unspool.engine.reference import OPERATIONS
from unspool.errors import ArgumentError, ShapeError
from unspool.runtime.network import Array, Recurrence
from unspool.runtime.options import PLAIN, PlayOptions
from unspool.runtime.packing import pack
from unspool.runtime.rounding import as_array, as_rounded

#: The operations of the equations on numbers of any type, which they keep.
KEEPING: dict[str, Callable[..., Any]] = {**OPERATIONS, "constant": lambda number, x: x.dtype.type(number)}


class RecurrencePlayer:
    """A cell over time, whose weights no longer change.

    Args:
        recurrence: The cell and its weights.
        options: How it is played.

    Example:
        player = RecurrencePlayer(recurrence)
        output, states = player.run(x)
        more, states = player.run(later, states)
    """

    def __init__(self, recurrence: Recurrence, options: PlayOptions = PLAIN) -> None:
        self.recurrence = recurrence
        equations = recurrence.equations
        arrays = {name: _numbers(recurrence.parameters[name], options) for name in equations.parameters}
        self.dtype: np.dtype[Any] = np.result_type(*arrays.values()) if arrays else np.dtype(np.float32)
        self.packed = pack(equations, recurrence.input_size, recurrence.hidden_size, arrays, options)
        if self.packed is not None:  # integers are for float32
            self.dtype = self.packed.dtype
        self._parameters = {} if self.packed else arrays
        self._step = Evaluator(equations, KEEPING, (recurrence.input_size, recurrence.hidden_size))

    def initial_states(self, rows: int) -> tuple[Array, ...]:
        """The states before the first step, for a batch of `rows`."""
        sizes, learned = self.recurrence.state_sizes, self.recurrence.initial
        if learned is None:
            return tuple(np.zeros((rows, size), self.dtype) for size in sizes)
        return tuple(np.repeat(one[None], rows, 0) for one in learned)

    def run(
        self, x: Array, states: Sequence[Array] | None = None, lengths: Array | None = None
    ) -> tuple[Array, tuple[Array, ...]]:
        """Run over a batch of sequences.

        Args:
            x: (time, batch, input_size).
            states: Those to start from, each (batch, width); by default the initial ones.
            lengths: Steps of each sequence; by default all have every step.

        Returns:
            The output (time, batch, width), zero beyond the length of each sequence, and the final states.
        """
        self._check(x, states, lengths)
        steps, rows, _ = x.shape
        start = self.initial_states(rows) if states is None else tuple(states)
        if not steps or not rows:
            return np.zeros((steps, rows, self.recurrence.output_size), self.dtype), start
        if self.packed is None:
            return self._run_by_equations(x, start, lengths)
        out, final = self.packed.run(np.ascontiguousarray(x, self.dtype), start, lengths, self.recurrence.reverse)
        return out, tuple(final)

    def _check(self, x: Array, states: Sequence[Array] | None, lengths: Array | None) -> None:
        """Refuse what does not fit: a kernel follows addresses, and looks at no shape."""
        width = self.recurrence.input_size
        if x.ndim != 3 or x.shape[2] != width:
            raise ShapeError.of("x", x.shape, f"is not (time, batch, {width})", "Give what the network reads")
        steps, rows, _ = x.shape
        shapes = [(rows, size) for size in self.recurrence.state_sizes]
        if states is not None and [state.shape for state in states] != shapes:
            given = [state.shape for state in states]
            raise ShapeError.of("states", given, f"are not of shapes {shapes}", "Give those that a call returned")
        if lengths is not None and not _are_lengths(lengths, steps, rows):
            problem = f"are not {rows} integers from 0 to {steps}"
            raise ArgumentError.of("lengths", np.asarray(lengths).tolist(), problem, "Give one per sequence")

    def _run_by_equations(
        self, x: Array, start: tuple[Array, ...], lengths: Array | None
    ) -> tuple[Array, tuple[Array, ...]]:
        steps, rows, _ = x.shape
        x = x.astype(self.dtype, copy=False)
        now = [np.array(state, self.dtype) for state in start]
        out = np.zeros((steps, rows, self.recurrence.output_size), self.dtype)
        with np.errstate(all="ignore"):  # as a kernel, which says nothing about infinity
            for t in reversed(range(steps)) if self.recurrence.reverse else range(steps):
                live: Any = slice(None) if lengths is None else t < lengths
                new, _ = self._step(self._parameters, x[t][live], [state[live] for state in now])
                kept = [np.array(value) for value in new]  # one may be another's old state, handed on as it is
                for state, value in zip(now, kept, strict=True):
                    state[live] = value
                out[t, live] = kept[0]
        return out, tuple(now)


def _numbers(parameter: Array, options: PlayOptions) -> Array:
    return as_array(as_rounded(parameter) if options.int8 and parameter.ndim == 2 else parameter)


def _are_lengths(lengths: Array, steps: int, rows: int) -> bool:
    whole = lengths.shape == (rows,) and lengths.dtype.kind in "iu"
    return whole and (not rows or 0 <= int(lengths.min()) <= int(lengths.max()) <= steps)
