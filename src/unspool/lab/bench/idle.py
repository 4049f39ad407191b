"""Idle threads: waits until the threads that a contestant has left behind are asleep."""

from __future__ import annotations

import threading
import time
from pathlib import Path

#: Where Linux tells about the threads of this process.
THREADS = Path("/proc/self/task")
#: Seconds between two looks, and at most; where nobody tells, seconds that are waited.
LOOK, MOST, UNTOLD = 0.001, 0.25, 0.05


def wait_for_idle_threads() -> None:
    """Return when no other thread of this process runs.

    After their last loop the threads of ONNX Runtime look for work for tens of milliseconds, those of other libraries
    for about one. Meanwhile they take half of a core from whoever has the next turn.
    """
    if not THREADS.is_dir():
        time.sleep(UNTOLD)
        return
    end = time.perf_counter() + MOST
    while others_run() and time.perf_counter() < end:
        time.sleep(LOOK)


def others_run() -> bool:
    """Whether another thread of this process runs, or waits for a core."""
    own = str(threading.get_native_id())
    return any(_state(thread) == "R" for thread in THREADS.iterdir() if thread.name != own)


def _state(thread: Path) -> str:
    """The letter behind the name in parentheses, which may hold any character; none of a thread that has ended."""
    try:
        return (thread / "stat").read_text("utf-8", "replace").rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return ""
