"""Ctrl-C: asks a run to save and end; asked twice, it ends at once."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Stop:
    """Whether someone has asked to end."""

    asked = False


@contextmanager
def listening() -> Iterator[Stop]:
    """Interrupts and requests to terminate are taken down, and not obeyed at once; in the main thread only."""
    stop = Stop()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return

    def ask(number: int, frame: FrameType | None) -> None:  # noqa: ARG001 - signal's own
        if stop.asked:
            raise KeyboardInterrupt
        stop.asked = True

    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
