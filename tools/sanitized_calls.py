"""The child of `sanitize.py`: builds kernels with sanitizers and calls them on arrays of exact sizes, without torch.

Every array is an allocation of its own that ends where its numbers end, so that whoever goes past it is seen. So is, by
a change to a copy of arena.h, every piece of scratch memory, up to the room that it has for a vector's overhang.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).parent.parent / "src"))

from unspool.cells import document
from unspool.cells.equations import Equations
from unspool.engine import build
from unspool.engine.kernel import Kernel

Array = NDArray[Any]
FLAGS = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-fno-omit-frame-pointer", "-g1")
#: Small calls, too, use all of their threads.
THREADED = ("-DUNSPOOL_WORTH_A_THREAD=0", "-DUNSPOOL_WORTH_A_MEETING=0")
#: In arena.h: each piece is a block of its own, and a block is freed when the arena is reset.
APART = {"MINIMUM = 1 << 18": "MINIMUM = 0", "blocks_.size() > 1": "!blocks_.empty()", "add(total);": ""}


class Caller:
    """Calls of one cell's kernel with numbers and shapes drawn at random."""

    def __init__(self, equations: Equations, seed: int, plant: str) -> None:
        self.equations, self.plant = equations, plant
        self.random, self.numbers = Random(seed), np.random.default_rng(seed)
        self.dtype = np.dtype((np.float32, np.float64)[seed % 2])
        hidden = self.random.choice((1, 3, 7, 8, 16, 17, 32, 33, 64))
        hidden = -(-hidden // equations.hidden_unit) * equations.hidden_unit
        unit_by_unit = any(node.operation == "input" and node.width == "hidden" for node in equations.nodes)
        self.sizes = hidden if unit_by_unit else self.random.choice((1, 3, 8, 17)), hidden
        self.kernel = Kernel(equations, *self.sizes)
        self.x_size = equations.x_size(*self.sizes)

    def call(self, steps: int, rows: int, threads: int, ragged: bool) -> None:
        """Forward, back, and forward with a trace; every number of every result must have been written."""
        random, kernel = self.random, self.kernel
        reverse, given = random.random() < 0.5, random.random() < 0.7
        lengths = np.array([random.randint(0, steps) for _ in range(rows)], np.int64) if ragged else None
        x = self.drawn(steps, rows, self.x_size)
        parameters = [self.drawn(*shape) for shape in self.equations.shapes(*self.sizes).values()]
        start = [self.drawn(rows, width) for width in kernel.state_widths] if given else []
        out = self.blank(steps, rows, kernel.state_widths[0])
        final = [self.blank(rows, width) for width in kernel.state_widths]
        tape = self.blank(steps * rows * kernel.record)
        head = (self.dtype.itemsize, (steps, rows), threads, reverse, 0 if lengths is None else at(lengths))
        inputs = (at(x) + (self.plant == "misaligned"), every(parameters), every(start))
        short = out.ravel()[:-1].copy() if self.plant == "overrun" else out
        kernel.forward(*head, *inputs, at(short), every(final), at(tape))
        self.check("forward", out, *final)
        self.play((steps, rows), head[2:], x, parameters)
        same = random.random() < 0.2
        d_out = self.drawn(*(out.shape[2:] if same else out.shape)) if random.random() < 0.8 else None
        d_final = [self.drawn(*state.shape) if random.random() < 0.6 else None for state in final]
        d_x = self.blank(*x.shape) if random.random() < 0.8 else None
        d_parameters = [self.blank(*parameter.shape) for parameter in parameters]
        d_start = [self.blank(*state.shape) for state in start]
        slopes: Any = (at(d_out), every(d_final), at(d_x), every(d_parameters), every(d_start))
        slopes = (*slopes, same and d_out is not None)
        kernel.backward(*head, *inputs, at(out), at(tape), *slopes)
        self.check("backward", *d_parameters, *d_start, *([] if d_x is None else [d_x]))
        trace = [self.blank(steps, rows, width) for width in kernel.named_widths]
        kernel.forward(*head, *inputs, at(out), every(final), trace=every(trace))
        self.check("trace", out, *final, *trace)

    def play(self, shape: tuple[int, int], head: tuple[int, bool, int], x: Array, parameters: list[Array]) -> None:
        """Forward on matrices that are packed before, as they are and as whole numbers."""
        kernel, size = self.kernel, self.dtype.itemsize
        for int8 in (False, True)[: 1 + (size == 4)]:
            packed = np.empty(kernel.packed_size(size, every(parameters), int8) or 1, np.uint8)
            kernel.pack(size, every(parameters), at(packed), int8)
            states = [self.drawn(shape[1], width) for width in kernel.state_widths]
            out = self.blank(*shape, kernel.state_widths[0])
            inputs = at(x), at(packed), every(parameters)
            kernel.play(size, shape, *head, *inputs, every(states), at(out), every(states), int8)()
            self.check("packed forward", out, *states)

    def drawn(self, *shape: int) -> Array:
        return np.asarray(self.numbers.normal(size=shape) / shape[-1] ** 0.5, self.dtype)

    def blank(self, *shape: int) -> Array:
        return np.full(shape, np.nan, self.dtype)

    def check(self, way: str, *results: Array) -> None:
        if not all(np.isfinite(result).all() for result in results):
            raise SystemExit(f"the {way} pass of {self.equations.title} left a number unwritten, or it is not finite")


def at(array: Array | None) -> int:
    return 0 if array is None else array.ctypes.data


def every(arrays: Any) -> list[int]:
    return [at(array) for array in arrays]


def shapes(random: Random) -> Iterator[tuple[int, int, int, bool]]:
    """Steps, rows, threads and whether rows are ragged."""
    for rows, threads, ragged in product(range(1, 10), (1, 2), (False, True)):
        yield random.randint(1, 7), rows, threads, ragged
    yield 40, 9, 2, True  # several slabs


def apart(folder: Path, enough: bool) -> Path:
    """The native headers with scratch memory in separate pieces; in pieces half as large where that is planted."""
    shutil.copytree(build.NATIVE, folder)
    arena = folder / "arena.h"
    text = arena.read_text(encoding="utf-8")
    for old, new in (APART if enough else {**APART, "+ 127) / 64 * 64": "/ 2 + 63) / 64 * 64"}).items():
        if text.count(old) != 1:
            raise SystemExit(f"arena.h no longer says {old!r} once; see {Path(__file__).name}")
        text = text.replace(old, new)
    arena.write_text(text, encoding="utf-8")
    return folder


def sanitize_builds(folder: Path, level: str, plant: str = "") -> None:
    """From now on, kernels are built with the sanitizers."""
    del os.environ["LD_PRELOAD"]  # it is here; the compiler does without it
    seams: Any = build
    seams.NATIVE = apart(folder / "native", plant != "scratch")
    seams.FLAGS = (*build.FLAGS, *FLAGS, *THREADED, level)


def main(folder: Path, level: str, plant: str) -> None:
    sanitize_builds(folder, level, plant)
    for seed, text in enumerate(json.loads((folder / "cells.json").read_text(encoding="utf-8"))):
        caller = Caller(document.load(text), seed, plant)
        for shape in shapes(caller.random):
            caller.call(*shape)
        print(f"{caller.equations.title} of {caller.dtype}, {caller.sizes}: clean", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
