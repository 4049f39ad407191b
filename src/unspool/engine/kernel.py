"""Kernel: a cell's compiled forward and backward passes, called with addresses of contiguous arrays."""

from __future__ import annotations

import ctypes
from array import array
from collections.abc import Callable, Sequence

from unspool.cells.equations import Equations
from unspool.engine.build import load
from unspool.engine.emit import emit, record_length
from unspool.errors import UnspoolError

#: Addresses of arrays; 0 where there is none.
Addresses = Sequence[int]

#: The fields of `Call` in native/driver.h, eight bytes each, in their order; the meanings are told there.
FIELDS = (
    *("steps", "batch", "threads", "reverse", "sizes", "lengths", "x", "parameters", "start", "out", "final_states"),
    *("tape", "trace", "d_out", "d_final", "d_x", "d_parameters", "d_start"),
)
PLACE = {name: place for place, name in enumerate(FIELDS)}


class Kernel:
    """The compiled equations of a cell for given sizes. It knows addresses only, no arrays and no torch."""

    def __init__(self, equations: Equations, input_size: int, hidden_size: int) -> None:
        self._source = emit(equations)
        self.equations = equations
        widths = ("input", "hidden", *equations.sizes)
        self._sizes = (ctypes.c_int64 * len(widths))(*(equations.size(w, input_size, hidden_size) for w in widths))
        self._sizes_at = ctypes.addressof(self._sizes)
        self._functions: dict[tuple[str, int], Callable[[int], int]] = {}
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
    ) -> None:
        """Run over `shape` = (steps, batch). Without `start` states begin at zero; a tape and a trace are filled."""
        head = [*shape, threads, reverse, self._sizes_at, lengths, x, 0, 0, out, 0, tape, 0, 0, 0, 0, 0, 0]
        tables = {"parameters": parameters, "start": start, "final_states": final, "trace": trace}
        self._run("trace" if trace else "forward", itemsize, head, tables)

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
    ) -> None:
        """Run back from the forward pass's tape; 0 is a gradient that is zero, or one that is not wanted."""
        head = [*shape, threads, reverse, self._sizes_at, lengths, x, 0, 0, out, 0, tape, 0, d_out, 0, d_x, 0, 0]
        tables = {
            "parameters": parameters,
            "start": start,
            "d_final": d_final,
            "d_parameters": d_parameters,
            "d_start": d_start,
        }
        self._run("backward", itemsize, head, tables)

    def _run(self, direction: str, itemsize: int, head: list[int], tables: dict[str, Addresses]) -> None:
        """Lay the call and its tables of addresses out in one array, the tables behind the fields."""
        call = array("Q", head)
        behind = {}
        for name, table in tables.items():
            if table:
                behind[PLACE[name]] = len(call)
                call.extend(table)
        at, _ = call.buffer_info()
        for place, offset in behind.items():
            call[place] = at + 8 * offset
        function = self._functions.get((direction, itemsize)) or self._load(direction, itemsize)
        if function(at):
            raise UnspoolError(f"not enough memory for the {direction} pass. Use a smaller batch or fewer steps.")

    def prepare(self, itemsize: int) -> None:
        """Load what trains and infers on numbers of this size, so that a failure to build shows here."""
        if ("forward", itemsize) not in self._functions:
            self._load("forward", itemsize)

    def _load(self, direction: str, itemsize: int) -> Callable[[int], int]:
        real = {4: "float", 8: "double"}[itemsize]
        library = load(self._source, f"UNSPOOL_REAL={real}", f"UNSPOOL_TRACE={int(direction == 'trace')}")
        for name in ("trace",) if direction == "trace" else ("forward", "backward"):
            function = library.unspool_backward if name == "backward" else library.unspool_forward
            function.argtypes = [ctypes.c_void_p]
            self._functions[name, itemsize] = function
        return self._functions[direction, itemsize]
