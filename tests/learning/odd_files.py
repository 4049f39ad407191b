"""Names that stand for no regular file: folders, pipes, sockets, devices, links in circles."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from unspool.errors import DataError

KINDS = ("folder", "pipe", "socket", "device", "loop")


def check_refused(path: Path, kind: str, reads: Iterable[Callable[[Path], Any]], said: str) -> None:
    """Something odd in the place of a file is refused by every reader, with a message that matches."""
    with place(path, kind):
        for read in reads:
            with pytest.raises(DataError, match=said):
                read(path)


@contextmanager
def place(path: Path, kind: str) -> Iterator[None]:
    """Something odd in the place of a file, while the context lasts."""
    put(path, kind)
    try:
        yield
    finally:
        path.rmdir() if kind == "folder" else path.unlink()


def put(path: Path, kind: str) -> None:
    """Put something odd where nothing is."""
    if kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "socket":
        _bind(path)
    else:
        path.symlink_to("/dev/zero" if kind == "device" else path)


def _bind(path: Path) -> None:
    """A socket that nobody listens to, bound by a short name: that of a socket is limited to a hundred characters."""
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        with socket.socket(socket.AF_UNIX) as one:
            one.bind(f"/proc/self/fd/{folder}/{path.name}")
    finally:
        os.close(folder)
