"""How a server's process uses memory and cores, so that one who waits for an answer meets no surprise."""

from __future__ import annotations

import ctypes
import gc
import os
import sys

#: Of glibc's malloc.h.
M_MMAP_THRESHOLD, M_ARENA_MAX = -3, -8
#: Bytes from which a block is given back to the system as soon as it is free.
LARGE = 256 * 1024
#: Objects, more than there were, after which garbage is looked for: some megabytes.
GROWTH = 10_000
#: Times that a thread of a kernel looks for work before it sleeps: some microseconds.
LOOKS = 1000


def steady_allocation() -> bool:
    """Keep one heap for all threads, and large blocks out of it.

    glibc gives each thread a heap of its own, and moves large blocks into the heaps once some have been freed. Both
    leave megabytes of holes. The threads here compute more than they allocate, so a common heap costs them nothing.

    Returns:
        Whether the system's allocator can be told so: glibc's can.
    """
    if not sys.platform.startswith("linux"):
        return False
    tell = getattr(ctypes.CDLL(None), "mallopt", None)
    return tell is not None and bool(tell(M_ARENA_MAX, 1)) and bool(tell(M_MMAP_THRESHOLD, LARGE))


def short_waits() -> None:
    """Have threads of kernels sleep soon when they have nothing to do, unless the environment says otherwise.

    By default they look for work for milliseconds, on cores that the connections need. To be called before the first
    kernel is loaded; processes that this one starts inherit it.
    """
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", str(LOOKS))


def quiet_garbage_collection() -> None:
    """Leave what is loaded by now out of the garbage collector's rounds, and have fewer of them.

    A round over a thousand connections holds up every session for a tenth of a second. By default there is one after
    a few hundred requests, as each looks like growth while it is answered; almost nothing here is garbage in cycles.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(GROWTH)
