"""The entry point of the command line: a Ctrl-C ends it with 130 and without a trace, also while torch is imported."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

LAST_WORD = "interrupted\n"


def main() -> None:
    """Run the command line and exit."""
    try:
        with ending_at_once():
            from unspool.cli.main import main as run
        run()
    except KeyboardInterrupt:
        sys.stderr.write(LAST_WORD)
        sys.exit(130)
    finally:
        listen()  # what is left is Python's own end


@contextmanager
def ending_at_once() -> Iterator[None]:
    """Inside, for imports, a Ctrl-C ends the process: libraries that are being imported turn exceptions into others."""
    listen()
    try:
        yield
    finally:
        obey()


def listen() -> None:
    """From now on a Ctrl-C ends the process at once, unless it is ignored, as in a background job."""
    ours = threading.current_thread() is threading.main_thread()  # only there Python hears signals
    if ours and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, leave)


def obey() -> None:
    """From now on a Ctrl-C is a KeyboardInterrupt, as always."""
    if signal.getsignal(signal.SIGINT) is leave:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def leave(number: int = signal.SIGINT, frame: FrameType | None = None) -> None:  # noqa: ARG001 - signal's own
    """End at once, with one line."""
    os.write(2, LAST_WORD.encode())
    os._exit(130)
