"""Tokens: a long sequence of ids in a memory-mapped file."""

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
    """The smallest type that holds ids below `size`."""
    kinds: tuple[Any, ...] = (np.uint8, np.uint16)
    return np.dtype(next((kind for kind in kinds if size - 1 <= np.iinfo(kind).max), np.uint32))


def write_tokens(path: Path, pieces: Iterable[Ids], size: int) -> None:
    """Write ids below `size` piece by piece; the file appears when it is complete."""
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
    """The ids of a file that `write_tokens` wrote; only the pages in use are in memory."""
    kind = smallest_type(size)
    if path.stat().st_size == 0:
        return np.empty(0, kind)
    return np.memmap(path, kind, "r")
