"""An end for benchmarks that wait for other processes: one clear line in place of a wait without end."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def bounded(what: str, minutes: float) -> Iterator[None]:
    """Inside, work may take so many minutes; then the program ends with a line that names it, and exit code 1."""

    def give_up(_number: int, _frame: FrameType | None) -> None:
        raise SystemExit(f"{what}: no end after {minutes:g} minutes; given up")

    before = signal.signal(signal.SIGALRM, give_up)
    signal.setitimer(signal.ITIMER_REAL, 60 * minutes)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
