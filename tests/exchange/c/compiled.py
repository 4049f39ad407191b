"""Exported C, compiled into one library by one call of a compiler, and called with NumPy arrays."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from unspool.exchange.c.source import Written

STRICT = ("-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic", "-fPIC")

#: For tests by both compilers, as far as they are here.
each_compiler = pytest.mark.parametrize(
    "compiler",
    [
        pytest.param(name, marks=pytest.mark.skipif(not shutil.which(name), reason=f"{name} is not installed"))
        for name in ("gcc", "clang")
    ],
)


def compile_all(
    folder: Path, written: Sequence[Written], compiler: str = "gcc", options: Sequence[str] = ("-O1",)
) -> dict[str, Model]:
    """One library of several models, by their names."""
    lines = []
    for one in written:
        (folder / f"{one.name}.c").write_text(one.code)
        (folder / f"{one.name}.h").write_text(one.header)
        lines += [f'#include "{one.name}.c"', f"size_t {one.name}_size(void);"]
        lines += [f"size_t {one.name}_size(void) {{ return sizeof({one.name}_state); }}"]
    (folder / "all.c").write_text("\n".join(lines) + "\n")
    library = folder / f"all-{compiler}.so"
    command = [compiler, *STRICT, *options, "-shared", str(folder / "all.c"), "-o", str(library), "-lm"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[:3000]
    loaded = ctypes.CDLL(str(library))
    return {one.name: Model(loaded, one) for one in written}


class Model:
    """The functions of one model, and its state in memory of exactly its size."""

    def __init__(self, library: ctypes.CDLL, written: Written) -> None:
        self.library, self.name = library, written.name
        self.blob = None if written.blob is None else np.frombuffer(written.blob, np.uint8).copy()
        self.start()

    def start(self) -> None:
        """A new state."""
        self.state = np.full(self._call("size", restype=ctypes.c_size_t), 0xA5, np.uint8)
        if self.blob is None:
            self("init")
        else:
            assert self("init", self.blob, len(self.blob), restype=ctypes.c_int) == 0

    def __call__(self, function: str, *arguments: Any, restype: Any = None) -> Any:
        """Call a function whose first argument is the state."""
        return self._call(function, self.state, *arguments, restype=restype)

    def workspace(self, *sizes: int) -> NDArray[np.float32]:
        """Memory of exactly the size that `run` needs, full of NaN."""
        return np.full(self._call("workspace", *sizes, restype=ctypes.c_size_t), np.nan, np.float32)

    def _call(self, function: str, *arguments: Any, restype: Any = None) -> Any:
        found = getattr(self.library, f"{self.name}_{function}")
        found.restype = restype
        return found(*map(_as_c, arguments))


def _as_c(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        assert value.flags.c_contiguous
        return value.ctypes.data_as(ctypes.c_void_p)
    if isinstance(value, np.int32):
        return ctypes.c_int32(int(value))
    return ctypes.c_size_t(value) if isinstance(value, int) else value


def floats(*shape: int) -> NDArray[np.float32]:
    """Memory for results."""
    return np.full(shape, np.nan, np.float32)


def as_floats(values: Any) -> NDArray[np.float32]:
    return np.ascontiguousarray(values, np.float32)


def as_ids(values: Any) -> NDArray[np.int32]:
    return np.ascontiguousarray(values, np.int32)


def in_double(tensors: Mapping[str, Any]) -> dict[str, Any]:
    """The same numbers in float64, so that what reads them computes in it."""
    return {name: np.asarray(one, np.float64) for name, one in tensors.items()}
