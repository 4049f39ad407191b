"""A disk that is watched: what is asked of it is counted, and something happens at the n-th request."""

from __future__ import annotations

import builtins
import errno
import io
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock


@contextmanager
def watched(folder: Path, at: int, act: Callable[[], None]) -> Iterator[list[str]]:
    """Below `folder`, and in every fsync, do `act` at the at-th request; a write is then half done.

    Gives the list of requests so far: each write, fsync, replace and mkdir.
    """
    asked: list[str] = []
    really: dict[str, Callable[..., Any]] = {
        "open": io.open,
        "fsync": os.fsync,
        "replace": os.replace,
        "mkdir": os.mkdir,
    }

    def ask(what: str) -> bool:
        asked.append(what)
        return len(asked) == at

    def watch(name: str, concerns: Callable[[Any], bool]) -> Callable[..., Any]:
        def function(*arguments: Any, **options: Any) -> Any:
            if concerns(arguments[-1] if name == "replace" else arguments[0]) and ask(name):
                act()
            return really[name](*arguments, **options)

        return function

    def open_watched(file: Any, mode: str = "r", *arguments: Any, **options: Any) -> Any:
        stream = really["open"](file, mode, *arguments, **options)
        if mode[0] in "wax" and is_below(file):
            write = stream.write

            def write_watched(content: Any) -> Any:
                if ask("write"):
                    write(content[: len(content) // 2])
                    stream.flush()
                    act()
                return write(content)

            stream.write = write_watched
        return stream

    def is_below(path: Any) -> bool:
        return isinstance(path, str | Path) and Path(path).is_relative_to(folder)

    def is_new(path: Any) -> bool:
        return is_below(path) and not Path(path).exists()  # one that is there needs no room

    with (
        mock.patch.object(builtins, "open", open_watched),
        mock.patch.object(io, "open", open_watched),
        mock.patch.object(os, "fsync", watch("fsync", lambda handle: True)),
        mock.patch.object(os, "replace", watch("replace", is_below)),
        mock.patch.object(os, "mkdir", watch("mkdir", is_new)),
    ):
        yield asked


def fail() -> None:
    """The disk is full."""
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def die() -> None:
    """Nothing that Python could catch."""
    os.kill(os.getpid(), signal.SIGKILL)


@contextmanager
def slow(seconds: float) -> Iterator[None]:
    """Every fsync and every rename takes its time, so that most of a run's time is saving."""
    fsync, replace = os.fsync, os.replace

    def late(function: Callable[..., None]) -> Callable[..., None]:
        def wait(*arguments: Any) -> None:
            time.sleep(seconds / 2)
            function(*arguments)
            time.sleep(seconds / 2)

        return wait

    with mock.patch.object(os, "fsync", late(fsync)), mock.patch.object(os, "replace", late(replace)):
        yield
