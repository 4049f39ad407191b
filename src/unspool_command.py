"""The door of the command line: a Ctrl-C, even while torch is being imported, ends it with 130 and without a trace.

It stands beside the package, which imports torch as soon as anything in it is imported.
"""

from __future__ import annotations

import os
import signal
import sys
from types import FrameType

LAST_WORD = "interrupted\n"


def main() -> None:
    """Run the command line, and leave."""
    listen()
    try:
        from unspool.cli.main import main as run

        obey()
        run()
    except KeyboardInterrupt:
        sys.stderr.write(LAST_WORD)
        sys.exit(130)
    finally:
        listen()  # what is left is Python's own end


def listen() -> None:
    """From now on a Ctrl-C ends the process at once; libraries that are being imported turn exceptions into others."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # and not where it is ignored, in the background
        signal.signal(signal.SIGINT, leave)


def obey() -> None:
    """From now on a Ctrl-C is a KeyboardInterrupt, as always."""
    if signal.getsignal(signal.SIGINT) is leave:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def leave(number: int = signal.SIGINT, frame: FrameType | None = None) -> None:  # noqa: ARG001 - signal's own
    """End at once, with one line."""
    os.write(2, LAST_WORD.encode())
    os._exit(130)


def listen_if_run_as_module() -> None:
    """For `python -m unspool`, which imports the package before it comes to what is run."""
    words = sys.orig_argv
    if sys.argv[:1] == ["-m"] and "-m" in words and words[words.index("-m") + 1 :][:1] == ["unspool"]:
        listen()
