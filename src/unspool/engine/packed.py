"""PackedCell: a cell over time on NumPy arrays, its matrices packed once; for playing a model step by step."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unspool.cells.equations import Equations
from unspool.engine.kernel import Kernel
from unspool.engine.rounding import round_rows
from unspool.errors import ShapeError

Array = NDArray[Any]
#: Products of numbers for which another thread is woken: a fraction of a millisecond. For less, a thread that is late
#: because its core is busy costs more than it saves.
GRAIN = 25_000_000


class PackedCell:
    """A cell's equations with parameters that no longer change.

    Fed one step at a time or many, alone or in a batch, a sequence gives the same bits.

    Args:
        equations: The cell's.
        input_size: The width of x.
        hidden_size: The number of units.
        parameters: The arrays by their names in the equations; they are copied.
        int8: Keep matrices as integers from −127 to 127 with a scale per row, rounded by `engine.rounding.quantize`: a
            quarter of the memory.
        threads: The most threads that a call uses; a short one uses fewer.

    Example:
        cell = PackedCell(equations, 8, 16, parameters)
        output, states = cell.run(x, states)  # (time, batch, 8) → (time, batch, 16)
        stepper = cell.stepper(1)
        stepper.x[:] = vector
        stepper.step()  # stepper.out and stepper.states are those after this step
    """

    def __init__(
        self,
        equations: Equations,
        input_size: int,
        hidden_size: int,
        parameters: Mapping[str, Array],
        *,
        int8: bool = False,
        threads: int = 1,
    ) -> None:
        self.kernel = Kernel(equations, input_size, hidden_size)
        self.input_size, self.int8, self.threads = input_size, int8, threads
        arrays = [np.asarray(parameters[name]) for name in equations.parameters]
        for array, (name, shape) in zip(arrays, equations.shapes(input_size, hidden_size).items(), strict=True):
            if array.shape != shape:
                raise ShapeError.of(name, array.shape, f"is not of shape {shape}", "Give the cell's own parameters")
        self.dtype = np.dtype(np.float32) if int8 else np.result_type(np.float32, *arrays)
        self._arrays = [self._prepare(array) for array in arrays]
        self._places = [address(array) for array in self._arrays]
        size = self.dtype.itemsize
        self._packed = np.empty(
            self.kernel.packed_size(size, self._places, int8) or 1, np.uint8
        )  # a cell may have no matrix
        self.kernel.pack(size, self._places, address(self._packed), int8)
        self._products = sum(array.size for array in arrays if array.ndim == 2)  # of one step of one row
        for place, array in enumerate(arrays):
            if array.ndim == 2:  # from here on products read it packed, and nothing else reads a matrix
                self._arrays[place] = self._packed
                self._places[place] = address(self._packed)
        self.widths = self.kernel.state_widths

    def _prepare(self, array: Array) -> Array:
        """A parameter as the kernel packs it: it finds the same integers again in what `round_rows` gives."""
        return np.array(round_rows(array) if self.int8 and array.ndim == 2 else array, self.dtype, order="C")

    def initial_states(self, rows: int) -> list[Array]:
        """States of zeros."""
        return [np.zeros((rows, width), self.dtype) for width in self.widths]

    def run(
        self, x: Array, states: Sequence[Array] | None = None, lengths: Array | None = None, reverse: bool = False
    ) -> tuple[Array, list[Array]]:
        """Run over x (time, batch, input_size), which has a step and a row.

        Returns:
            The output (time, batch, width), zero beyond each row's length, and the final states.
        """
        x = np.ascontiguousarray(x, self.dtype)
        if x.ndim != 3 or x.shape[2] != self.input_size:
            raise ShapeError.of("x", x.shape, f"is not (time, batch, {self.input_size})", "Reshape it")
        steps, rows, _ = x.shape
        final = self.initial_states(rows) if states is None else [np.array(state, self.dtype) for state in states]
        out = np.empty((steps, rows, self.widths[0]), self.dtype)
        ends = 0 if lengths is None else address(lengths := np.ascontiguousarray(lengths, np.int64))
        threads = min(self.threads, 1 + steps * rows * self._products // GRAIN)
        self._call((steps, rows), x, out, final, threads, ends, reverse)()
        return out, final

    def stepper(self, rows: int, x: Array | None = None) -> Stepper:
        """Memory for single steps of so many rows; x is where their input will be, by default memory of its own."""
        return Stepper(self, rows, x)

    def _call(
        self,
        shape: tuple[int, int],
        x: Array,
        out: Array,
        states: Sequence[Array],
        threads: int,
        ends: int = 0,
        reverse: bool = False,
    ) -> Callable[[], None]:
        places = [address(state) for state in states]
        given = address(x), address(self._packed), self._places, places, address(out), places
        owners = self, x, out, tuple(states)  # else a call that outlives them would write into freed memory
        return self.kernel.play(self.dtype.itemsize, shape, threads, reverse, ends, *given, self.int8, owners)


class Stepper:
    """One step at a time: `x` is read, `out` and `states` are written in place by `step()`.

    Attributes:
        x: The input, (batch, input_size).
        out: The output, (batch, width).
        states: Before `step()` the states to start from, then those after it.
    """

    def __init__(self, cell: PackedCell, rows: int, x: Array | None = None) -> None:
        self.x = np.zeros((rows, cell.input_size), cell.dtype) if x is None else x
        wanted = (rows, cell.input_size), cell.dtype, True
        if (self.x.shape, self.x.dtype, self.x.flags.c_contiguous) != wanted:
            problem = f"is not {wanted[0]} of {cell.dtype}, one row after the other"
            raise ShapeError.of("x", (self.x.shape, str(self.x.dtype)), problem, "Give such memory, or none")
        self.out = np.zeros((rows, cell.widths[0]), cell.dtype)
        self.states = cell.initial_states(rows)
        self.step = cell._call((1, rows), self.x, self.out, self.states, threads=1)  # more only wait


def address(array: Array) -> int:
    """Where an array's memory begins."""
    place: int = array.__array_interface__["data"][0]
    return place
