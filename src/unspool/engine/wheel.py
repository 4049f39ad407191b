"""Compiles the kernels of the built-in cells when a wheel is built; setup.py calls it, without NumPy and torch."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import product
from pathlib import Path

from unspool.cells.catalogue import CATALOGUE
from unspool.cells.cell import Cell
from unspool.cells.lstm import LSTM
from unspool.engine import build
from unspool.engine.affine import Affine
from unspool.engine.emit import emit
from unspool.errors import UnknownNameError

#: The catalogue, what nn.LSTM is with a projection (how wide, a kernel is told when it is called), and linear maps.
CELLS: Mapping[str, Callable[[], Cell]] = {
    **CATALOGUE,
    "lstm-projected": partial(LSTM, projection=1),
    "affine": Affine,
}
REALS, TRACES = ("float", "double"), (0, 1)


def why_none() -> str:
    """Why no kernels can be compiled into a wheel here; empty if they can."""
    if sys.platform != "linux":
        return f"kernels are compiled ahead for Linux only, not for {sys.platform}"
    if not (cells() and instruction_sets()):
        return "UNSPOOL_WHEEL_CELLS or UNSPOOL_WHEEL_INSTRUCTIONS is empty"
    return "" if build.find_compiler() else "no C++ compiler (c++, g++ or clang++) is on PATH"


def cells() -> list[str]:
    """The names of the cells whose kernels are wanted: all, or those that UNSPOOL_WHEEL_CELLS names."""
    return _chosen("UNSPOOL_WHEEL_CELLS", CELLS)


def instruction_sets() -> list[str]:
    """Those that are wanted: all of this architecture, or those that UNSPOOL_WHEEL_INSTRUCTIONS names."""
    return _chosen("UNSPOOL_WHEEL_INSTRUCTIONS", build.instruction_sets())


def _chosen(variable: str, known: Collection[str]) -> list[str]:
    names = os.environ[variable].split() if variable in os.environ else list(known)
    for name in names:
        if name not in known:
            raise UnknownNameError.among(variable, name, known)
    return names


def compile_kernels(folder: Path) -> None:
    """Fill a folder with the libraries of the cells that are wanted, for the instruction sets that are wanted."""
    shutil.rmtree(folder, ignore_errors=True)
    texts = sources()
    libraries = product(instruction_sets(), REALS, TRACES)
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        list(pool.map(lambda library: compile_one(folder, texts, *library), libraries))


def sources() -> list[str]:
    """The C++ of the cells that are wanted, each with and without biases."""
    made = [CELLS[name]() for name in cells()]
    return list(dict.fromkeys(emit(cell.equations(bias)) for cell, bias in product(made, (True, False))))


def compile_one(folder: Path, texts: Iterable[str], instructions: str, real: str, trace: int) -> None:
    """One library of all kernels for one instruction set, one type of number, and either trace or training."""
    flags = build.compiler_flags(instructions, (f"UNSPOOL_REAL={real}", f"UNSPOOL_TRACE={trace}"))
    path = build.shipped_path(folder, instructions, flags)
    path.parent.mkdir(parents=True, exist_ok=True)
    joined = _join({build.key(source, flags): source for source in texts})
    build.compile_library(joined, str(build.find_compiler()), (*flags, "-s"), path)
    path.chmod(0o644)


def _join(texts: Mapping[str, str]) -> str:
    """One source of many, so that what they share is compiled once; each one's names end in its key."""
    lines = ['#include "driver.h"']
    for key, source in texts.items():
        names = ("Cell", "unspool_forward", "unspool_backward", "unspool_pack", "unspool_wave")
        lines += [*(f"#define {name} {name}_{key}" for name in names), source, *(f"#undef {name}" for name in names)]
    return "\n".join(lines)
