"""A library's checksum, kept in its last bytes: half a file, or a damaged one, would crash the process."""

from __future__ import annotations

import hashlib
from pathlib import Path

LENGTH = 32


def sign(path: Path) -> None:
    """Write a library's checksum behind what a loader reads."""
    with path.open("r+b") as file:
        file.write(hashlib.sha256(file.read()).digest())


def is_whole(path: Path) -> bool:
    """Whether a library is there as it was signed."""
    try:
        data = path.read_bytes()
    except OSError:
        return False
    return data[-LENGTH:] == hashlib.sha256(data[:-LENGTH]).digest()
