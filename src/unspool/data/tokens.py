"""Tokens: a long sequence of ids in a file that is mapped into memory, not read into it."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Ids = NDArray[np.integer[Any]]


def smallest_type(size: int) -> np.dtype[Any]:
    """The type of the fewest bytes that holds ids below `size`."""
    return np.dtype(np.uint8 if size <= 1 << 8 else np.uint16 if size <= 1 << 16 else np.uint32)


def write_tokens(path: Path, pieces: Iterable[Ids], size: int) -> None:
    """Write ids below `size` piece by piece; the file is there when all of it is, and not before."""
    kind = smallest_type(size)
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
    try:
        with os.fdopen(handle, "wb") as stream:
            for piece in pieces:
                stream.write(piece.astype(kind, copy=False).tobytes())
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def map_tokens(path: Path, size: int) -> Ids:
    """The ids of a file that `write_tokens` made; the pages in use are in memory, the others on disk."""
    kind = smallest_type(size)
    if path.stat().st_size == 0:
        return np.empty(0, kind)
    return np.memmap(path, kind, "r")
