"""Ctrl-C asks a run to save and stop; a second one stops it at once."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Stop:
    """Whether someone has asked to stop."""

    asked = False
    #: Everything is saved: who asks from now on need not wait.
    kept = False


@contextmanager
def listening(stop: Stop | None = None) -> Iterator[Stop]:
    """A context in which interrupts and requests to terminate are noted instead of obeyed; in the main thread only."""
    stop = stop or Stop()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return

    def ask(number: int, frame: FrameType | None) -> None:  # noqa: ARG001 - signal's own
        if stop.asked or stop.kept:
            raise KeyboardInterrupt
        stop.asked = True

    # A signal that is ignored stays so: a background job does not stop at a Ctrl-C that is meant for another.
    heard = [n for n in (signal.SIGINT, signal.SIGTERM) if signal.getsignal(n) is not signal.SIG_IGN]
    before = {number: signal.signal(number, ask) for number in heard}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
