"""Names that stand for no regular file: folders, pipes, sockets, devices, links in circles."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

KINDS = ("folder", "pipe", "socket", "device", "loop")


@contextmanager
def place(path: Path, kind: str) -> Iterator[None]:
    """Put something odd in the place of a file, while the context lasts."""
    path.unlink(missing_ok=True)
    listening = socket.socket(socket.AF_UNIX)
    try:
        if kind == "folder":
            path.mkdir()
        elif kind == "pipe":
            os.mkfifo(path)
        elif kind == "socket":
            _bind(listening, path)
        else:
            path.symlink_to("/dev/zero" if kind == "device" else path)
        yield
    finally:
        listening.close()
        path.rmdir() if kind == "folder" else path.unlink()


def _bind(listening: socket.socket, path: Path) -> None:
    """Bind by a short name: a socket's is limited to a hundred characters."""
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        listening.bind(f"/proc/self/fd/{folder}/{path.name}")
    finally:
        os.close(folder)
