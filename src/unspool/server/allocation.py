"""How a server's process asks for memory, so that what it holds does not depend on which thread needed it when."""

from __future__ import annotations

import ctypes
import sys

#: Of glibc's malloc.h.
M_MMAP_THRESHOLD, M_ARENA_MAX = -3, -8
#: Bytes from which a block is given back to the system as soon as it is free.
LARGE = 256 * 1024


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
