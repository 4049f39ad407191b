"""Kernels that came with the wheel: found by their content's key, so that a stale or foreign one is never used.

A library holds many kernels; the functions of each carry its key in their names. `wheel.py` makes them.
"""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

from unspool.engine.signature import is_whole

#: Libraries, in a folder for each instruction set; an editable install has none.
FOLDER = Path(__file__).parent / "kernels"


class _Kernel(ctypes.CDLL):
    """One kernel of a library; its functions are called by their plain names."""

    def __init__(self, path: Path, key: str) -> None:
        super().__init__(str(path))
        self._key = key

    def __getitem__(self, name: str) -> Any:
        return super().__getitem__(f"{name}_{self._key}")


def find(path: Path, key: str) -> ctypes.CDLL | None:
    """The kernel with this key in a library; None if it is not there, or the library is damaged or cannot be loaded."""
    if not is_whole(path):
        return None
    try:
        kernel = _Kernel(path, key)
    except OSError:
        return None
    return kernel if hasattr(kernel, "unspool_forward") else None


def libraries(instructions: str) -> list[Path]:
    """The libraries that came for an instruction set."""
    return sorted((FOLDER / instructions).glob("*.so"))
