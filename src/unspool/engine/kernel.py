"""Kernel: a cell's compiled forward and backward passes, called with addresses of contiguous arrays."""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from unspool.cells.equations import Equations
from unspool.engine.build import load
from unspool.engine.emit import emit, emit_products, record_length
from unspool.engine.wave import Wave
from unspool.errors import ArgumentError, BuildError, DTypeError, ShapeError, UnspoolError

#: Addresses of arrays; 0 where there is none.
Addresses = Sequence[int]

#: Where a parameter begins: in which of the arrays given for parameters, and how many numbers in; no array is −1.
Place = tuple[int, int]
NOWHERE: Place = (-1, 0)

#: What a call may be given beside what it needs: bits of `Call::given` in native/plan.h.
START, TRACE, SAME, FORKED, INT8, WAVE = 1, 2, 4, 8, 16, 256
NO_MEMORY = "not enough memory for the {} pass. Use a smaller batch or fewer steps."
#: The functions of a library that trains and infers; one for traces has a forward pass alone.
DIRECTIONS = ("forward", "backward", "pack", "wave")
#: The size of a number in bytes → its type.
REALS = {4: "float", 8: "double"}


@lru_cache
def _packer(count: int) -> Callable[..., bytes]:
    """From so many words to the bytes that C reads."""
    return struct.Struct(f"{count}q").pack


class _Process:
    """What a fork leaves behind in this process: the dead threads of an OpenMP runtime that does not notice."""

    forked = 0

    @classmethod
    def after_fork(cls) -> None:
        cls.forked = FORKED


if hasattr(os, "register_at_fork"):  # not on Windows, which has no forks
    os.register_at_fork(after_in_child=_Process.after_fork)


class Kernel:
    """The compiled equations of a cell for given sizes. It knows addresses only, no arrays and no torch.

    Parameters are arrays of their own, in the order of the equations, unless `places` says where each of them lies and
    where what is to be added to it.
    """

    def __init__(
        self,
        equations: Equations,
        input_size: int,
        hidden_size: int,
        places: Sequence[tuple[Place, Place]] | None = None,
    ) -> None:
        self._source = emit(equations)
        self.equations = equations
        widths = equations.widths
        self._sizes = (ctypes.c_int64 * len(widths))(*(equations.size(w, input_size, hidden_size) for w in widths))
        where = places or [((place, 0), NOWHERE) for place in range(len(equations.parameters))]
        self._places = (ctypes.c_int64 * (4 * len(where)))(
            *(word for pair in where for place in pair for word in place)
        )
        arrays = 1 + max((place[0] for pair in where for place in pair), default=-1)
        self._fixed = ctypes.addressof(self._sizes), ctypes.addressof(self._places), arrays
        self._functions: dict[tuple[str, int], Callable[[bytes], int]] = {}
        #: The width of every state and of every named value, in the order of the equations.
        self.state_widths = [equations.size(width, input_size, hidden_size) for width in equations.states.values()]
        self.named_widths = [
            equations.size(str(node.width), input_size, hidden_size) for node in equations.named.values()
        ]
        #: How many numbers the tape holds for each row and step.
        self.record = record_length(equations, input_size, hidden_size)

    def forward(
        self,
        itemsize: int,
        shape: tuple[int, int],
        threads: int,
        reverse: bool,
        lengths: int,
        x: int,
        parameters: Addresses,
        start: Addresses,
        out: int,
        final: Addresses,
        tape: int = 0,
        trace: Addresses = (),
        wave: Wave | None = None,
    ) -> None:
        """Run over `shape` = (steps, batch). Without `start` states begin at zero; a tape and a trace are filled.

        With a `wave`, which has its own `threads`, the call runs when the wave does; `reverse` must be False.
        """
        given = START * bool(start) | TRACE * bool(trace) | WAVE * (wave is not None) | _Process.forked
        head = (*shape, threads, reverse, *self._fixed, lengths, given)
        words = (*head, x, out, 0, tape, 0, 0, *parameters, *start, *final, *trace)
        count = self._fixed[2] + (1 + bool(start)) * len(self.state_widths) + bool(trace) * len(self.named_widths)
        self._check(itemsize, shape, (x, out, *parameters, *start, *final, *trace), 2 + count)
        self._run("trace" if trace else "forward", itemsize, words, wave)

    def backward(
        self,
        itemsize: int,
        shape: tuple[int, int],
        threads: int,
        reverse: bool,
        lengths: int,
        x: int,
        parameters: Addresses,
        start: Addresses,
        out: int,
        tape: int,
        d_out: int,
        d_final: Addresses,
        d_x: int,
        d_parameters: Addresses,
        d_start: Addresses,
        same: bool = False,
        wave: Wave | None = None,
    ) -> None:
        """Run back from the forward pass's tape; 0 is a gradient that is zero, or one that is not wanted.

        With `same`, `d_out` is one row, which holds for every step and row of the batch. A `wave` is as in `forward`.
        """
        given = START * bool(start) | SAME * same | WAVE * (wave is not None) | _Process.forked
        head = (*shape, threads, reverse, *self._fixed, lengths, given)
        words = (*head, x, out, 0, tape, d_out, d_x, *parameters, *start, *d_final, *d_parameters, *d_start)
        count = 2 * self._fixed[2] + (1 + 2 * bool(start)) * len(self.state_widths)
        needed = (x, out, *parameters, *start, *d_parameters, *d_start)  # a gradient of a final state may be none
        self._check(itemsize, shape, needed, 2 + count - len(d_final))
        self._run("backward", itemsize, words, wave)

    def packed_size(self, itemsize: int, parameters: Addresses, int8: bool = False) -> int:
        """How many bytes the matrices among the parameters take when they are packed, on this machine."""
        self._check(itemsize, (1, 1), parameters, self._fixed[2], int8)
        size = ctypes.c_int64()
        head = self._playing((1, 1), 1, False, 0, int8)
        self._run("pack", itemsize, (*head, 0, ctypes.addressof(size), 0, 0, 0, 0, *parameters))
        return size.value

    def pack(self, itemsize: int, parameters: Addresses, packed: int, int8: bool = False) -> None:
        """Pack the matrices among the parameters once, for many calls of `play`; with `int8`, as whole numbers."""
        self._check(itemsize, (1, 1), (*parameters, packed), self._fixed[2] + 1, int8)
        head = self._playing((1, 1), 1, False, 0, int8)
        self._run("pack", itemsize, (*head, 0, 0, packed, 0, 0, 0, *parameters))

    def play(
        self,
        itemsize: int,
        shape: tuple[int, int],
        threads: int,
        reverse: bool,
        lengths: int,
        x: int,
        packed: int,
        parameters: Addresses,
        start: Addresses,
        out: int,
        final: Addresses,
        int8: bool = False,
        owners: object = None,
    ) -> Callable[[], None]:
        """A forward pass over matrices that `pack` packed, to be called any number of times.

        It reads and writes the same memory at every call; `final` may be `start`. The result has the same bits however
        the steps are cut into calls and the rows into batches. `owners` of that memory live as long as the call.
        """
        states = len(self.state_widths)
        needed = (x, out, packed, *parameters, *start, *final)
        self._check(itemsize, shape, needed, 3 + self._fixed[2] + 2 * states, int8)
        head = self._playing(shape, threads, reverse, lengths, int8)
        words = (*head, x, out, packed, 0, 0, 0, *parameters, *start, *final)
        call = _packer(len(words))(*words)
        function = self._functions.get(("forward", itemsize)) or self._load("forward", itemsize)

        def play(_owners: object = (self, owners)) -> None:
            if function(call):
                raise UnspoolError(NO_MEMORY.format("forward"))

        return play

    def _playing(
        self, shape: tuple[int, int], threads: int, reverse: bool, lengths: int, int8: bool
    ) -> tuple[int, ...]:
        """The head of a call on packed matrices."""
        return (*shape, threads, reverse, *self._fixed, lengths, START | INT8 * int8 | _Process.forked)

    def _check(self, itemsize: int, shape: tuple[int, int], needed: Addresses, count: int, int8: bool = False) -> None:
        """C reads as many addresses as the cell has, and follows them."""
        if itemsize not in REALS:
            raise DTypeError.of("itemsize", itemsize, "is not 4 or 8 bytes", "Give float32 or float64")
        if int8 and itemsize != 4:
            raise DTypeError.of("itemsize", itemsize, "is not that of float32, which int8 is for", "Give float32")
        if min(shape) < 1:
            raise ShapeError.of("shape", shape, "has no step or no row", "There is nothing to compute")
        if len(needed) != count or 0 in needed:
            found = f"{len(needed)}, {needed.count(0)} of them 0"
            raise ArgumentError.of("addresses", found, f"are not {count} addresses", "Give one per array of the cell")

    def _run(self, direction: str, itemsize: int, words: tuple[int, ...], wave: Wave | None = None) -> None:
        """Hand over the call: its fields and, behind them, its tables of addresses."""
        function = self._functions.get((direction, itemsize)) or self._load(direction, itemsize)
        if wave is not None:
            words += wave.link()
            call = _packer(len(words))(*words)
            wave.add(function, call, self._functions["wave", itemsize], bool(_Process.forked))
            return
        if function(_packer(len(words))(*words)):
            raise UnspoolError(NO_MEMORY.format(direction))

    def constants(self, itemsize: int) -> tuple[list[int], list[int], list[int]]:
        """What calls have in common: the addresses of both passes and of waves, the sizes, the places of parameters."""
        self.prepare(itemsize)
        functions: list[Any] = [self._functions[name, itemsize] for name in ("forward", "backward", "wave")]
        addresses = [ctypes.cast(function, ctypes.c_void_p).value or 0 for function in functions]
        return addresses, list(self._sizes), list(self._places)

    def has(self, itemsize: int) -> bool:
        """Whether `prepare` has loaded what is for numbers of this size."""
        return ("forward", itemsize) in self._functions

    def prepare(self, itemsize: int) -> None:
        """Load what trains and infers on numbers of this size, so that a failure to build shows here."""
        if not self.has(itemsize):
            self._load("forward", itemsize)

    def _load(self, direction: str, itemsize: int) -> Callable[[bytes], int]:
        real = REALS[itemsize]
        defines = f"UNSPOOL_REAL={real}", f"UNSPOOL_TRACE={int(direction == 'trace')}"
        library = load(self._source, *defines, common=emit_products(real))
        for name in ("trace",) if direction == "trace" else DIRECTIONS:
            try:
                function = library[f"unspool_{'forward' if name == 'trace' else name}"]
            except AttributeError as error:
                raise BuildError(f"the compiler made a library without our functions: {error}. Look at it.") from error
            function.argtypes = [ctypes.c_char_p]
            self._functions[name, itemsize] = function
        return self._functions[direction, itemsize]
