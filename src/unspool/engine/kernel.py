"""Kernel: a cell's compiled forward and backward passes, called with addresses of contiguous arrays."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

from unspool.cells.equations import Equations
from unspool.engine.build import load
from unspool.engine.emit import emit, record_length
from unspool.errors import UnspoolError

Addresses = Sequence[int | None]


class Call(ctypes.Structure):
    """What native/driver.h calls `Call`; the fields are told there."""

    _fields_ = [
        ("steps", ctypes.c_int64),
        ("batch", ctypes.c_int64),
        ("threads", ctypes.c_int64),
        ("reverse", ctypes.c_int64),
        ("sizes", ctypes.c_void_p),
        ("lengths", ctypes.c_void_p),
        ("x", ctypes.c_void_p),
        ("parameters", ctypes.c_void_p),
        ("start", ctypes.c_void_p),
        ("out", ctypes.c_void_p),
        ("final_states", ctypes.c_void_p),
        ("tape", ctypes.c_void_p),
        ("trace", ctypes.c_void_p),
        ("d_out", ctypes.c_void_p),
        ("d_final", ctypes.c_void_p),
        ("d_x", ctypes.c_void_p),
        ("d_parameters", ctypes.c_void_p),
        ("d_start", ctypes.c_void_p),
    ]


class Kernel:
    """The compiled equations of a cell for given sizes. It knows addresses only, no arrays and no torch."""

    def __init__(self, equations: Equations, input_size: int, hidden_size: int) -> None:
        library = load(emit(equations))
        self.equations = equations
        widths = ("input", "hidden", *equations.sizes)
        self._sizes = (ctypes.c_int64 * len(widths))(*(equations.size(w, input_size, hidden_size) for w in widths))
        self._functions = {
            (direction, width): getattr(library, f"unspool_{direction}_{name}")
            for direction in ("forward", "backward")
            for width, name in ((4, "float"), (8, "double"))
        }
        #: The width of every named value, in the order of the equations.
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
        lengths: int | None,
        x: int,
        parameters: Addresses,
        start: Addresses,
        out: int,
        final: Addresses,
        tape: int | None = None,
        trace: Addresses | None = None,
    ) -> None:
        """Run over `shape` = (steps, batch), keeping the tape if there is one."""
        call = Call(
            steps=shape[0],
            batch=shape[1],
            threads=threads,
            reverse=reverse,
            sizes=ctypes.addressof(self._sizes),
            lengths=lengths,
            x=x,
            out=out,
            tape=tape,
        )
        keep = [
            _point(call, name, value)
            for name, value in (("parameters", parameters), ("start", start), ("final_states", final), ("trace", trace))
        ]
        self._run("forward", itemsize, call)
        del keep

    def backward(
        self,
        itemsize: int,
        shape: tuple[int, int],
        threads: int,
        reverse: bool,
        lengths: int | None,
        x: int,
        parameters: Addresses,
        start: Addresses,
        out: int,
        tape: int,
        d_out: int | None,
        d_final: Addresses,
        d_x: int | None,
        d_parameters: Addresses,
        d_start: Addresses,
    ) -> None:
        """Run back from the forward pass's tape."""
        call = Call(
            steps=shape[0],
            batch=shape[1],
            threads=threads,
            reverse=reverse,
            sizes=ctypes.addressof(self._sizes),
            lengths=lengths,
            x=x,
            out=out,
            tape=tape,
            d_out=d_out,
            d_x=d_x,
        )
        keep = [
            _point(call, name, value)
            for name, value in (
                ("parameters", parameters),
                ("start", start),
                ("d_final", d_final),
                ("d_parameters", d_parameters),
                ("d_start", d_start),
            )
        ]
        self._run("backward", itemsize, call)
        del keep

    def _run(self, direction: str, itemsize: int, call: Call) -> None:
        if self._functions[direction, itemsize](ctypes.byref(call)):
            raise UnspoolError(f"not enough memory for the {direction} pass. Use a smaller batch or fewer steps.")


def _point(call: Call, name: str, addresses: Addresses | None) -> object:
    """Let a field point to an array of addresses; the array must outlive the call."""
    if addresses is None:
        return None
    array = (ctypes.c_void_p * max(1, len(addresses)))(*addresses)
    setattr(call, name, ctypes.addressof(array))
    return array
