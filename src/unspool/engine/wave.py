"""Wave: calls of kernels that run at once, each reading what the one before writes, step by step."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable

from unspool.errors import UnspoolError

#: Words from counter to counter: each has a line of the cache to itself, since threads watch each other's.
APART = 8


class Wave:
    """Calls in the order in which they depend on each other; `Kernel.forward` and `Kernel.backward` add them.

    The second call may begin when the first has finished some steps, and so on: then each runs in one thread. Or they
    run one after the other, each in all threads; what is faster is measured. The bits are the same. What their
    addresses point to must live until `run` returns.

    Args:
        most: how many calls there will be.
    """

    def __init__(self, most: int) -> None:
        self._counters = (ctypes.c_int64 * (APART * most))()
        self._calls: list[tuple[Callable[[bytes], int], bytes]] = []
        self._start: Callable[[bytes], int] | None = None
        self._forked = False

    def link(self) -> tuple[int, int]:
        """Where the next call finds how far the one before has come (0 for none), and where it says how far it is."""
        number = len(self._calls)
        return self._counter(number - 1) if number else 0, self._counter(number)

    def add(self, function: Callable[[bytes], int], call: bytes, start: Callable[[bytes], int], forked: bool) -> None:
        """A call of this function; `start` is the function of a kernel's library that runs waves.

        In a process that was `forked`, the threads of OpenMP are not there.
        """
        self._calls.append((function, call))
        self._start, self._forked = start, forked

    def run(self, threads: int) -> None:
        """Run the calls in so many threads."""
        assert self._start is not None
        words = [len(self._calls), threads, int(self._forked)]
        calls = [ctypes.create_string_buffer(call) for _, call in self._calls]  # to be filled in
        for number, (function, _) in enumerate(self._calls):
            words += [_address(function), ctypes.addressof(calls[number]), self._counter(number)]
        if self._start(struct.pack(f"{len(words)}q", *words)):
            raise UnspoolError("not enough memory for a stack of layers. Use a smaller batch or fewer steps.")

    def _counter(self, number: int) -> int:
        return ctypes.addressof(self._counters) + number * APART * ctypes.sizeof(ctypes.c_int64)


def _address(pointer: object) -> int:
    return int(ctypes.cast(pointer, ctypes.c_void_p).value or 0)  # type: ignore[arg-type]
