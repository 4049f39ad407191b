"""An exported LSTM in C, without Python: the time of a step beside that of its products alone, and sizes of files."""

from __future__ import annotations

import ctypes
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import numpy as np

from unspool.errors import UnspoolError
from unspool.exchange.c.convert import write_c
from unspool.exchange.c.source import Written
from unspool.lab.bench.agreement import OUTPUT, compare
from unspool.lab.bench.cases import Array, Case, Point
from unspool.lab.bench.contestants import modules
from unspool.lab.bench.contestants.steps import stack_of, unspool_steps
from unspool.lab.bench.report import OURS, Finding, Row
from unspool.lab.bench.settings import Say, Settings
from unspool.lab.bench.timing import Call, Spread, interleave
from unspool.runtime.network import Stack
from unspool.runtime.options import PlayOptions

#: (address of x, address of y, steps).
Function = Callable[[int, int, int], None]
POINT = Point(1, 1, 64, 64)
COMPILER, OPTIONS = "gcc", ("-std=c99", "-O3", "-march=native", "-ffp-contract=fast", "-shared", "-fPIC")
STEP, FILES, PRODUCTS = "a step in C, without Python", "sizes of files", "its products alone"
#: Steps per call from Python, so that the call itself does not count; and those before outputs are compared.
STEPS, AGREED = 1000, 3
STEPPING = """
#include "model.c"

static model_state state;
static int started;

void bench(const float *x, float *y, long steps)
{
    if (!started)
        model_init(&state);
    started = 1;
    for (long t = 0; t < steps; t++)
        model_step(&state, x, y);
}
"""
#: The matrix-vector products of a step and nothing else, by the function that the model itself calls.
MULTIPLYING = """
#include "model.c"

void bench(const float *x, float *y, long steps)
{
    const model_weights *const w = &model_constants;
    for (long t = 0; t < steps; t++) {
@
    }
}
"""


class CompilerError(UnspoolError):
    """There is no compiler, or it failed."""


def measure(settings: Settings, say: Say) -> Iterator[Row]:
    for point in settings.points or (POINT,):
        case = Case("lstm", point)
        stack = stack_of(modules.layer_of(modules.OURS, case)[0])
        for int8 in (False, True):
            title = f"LSTM {point.I},{point.H}{', int8' if int8 else ''}"
            say(f"export: {title}")
            yield sizes_of(title, stack, int8)
            try:
                yield measure_steps(title, stack, case.x[0, 0], int8, settings)
            except CompilerError as error:
                say(f"! the time of a step in C is not measured: {error}")


def sizes_of(title: str, stack: Stack, int8: bool) -> Row:
    """Bytes of the C file with its weights inside, and of its parts with the weights as a file of their own."""
    inside, separate = (write_c(stack, "model", int8=int8, separate=apart) for apart in (False, True))
    files = {
        "C, weights inside": inside.code.encode(),
        "C, weights separate": separate.code.encode(),
        "weights": separate.blob or b"",
        "header": inside.header.encode(),
    }
    return Row("export", FILES, title, {name: Spread.of([float(len(one))]) for name, one in files.items()}, "B")


def measure_steps(title: str, stack: Stack, x: Array, int8: bool, settings: Settings) -> Row:
    """Seconds of a step in C, after it has shown that it agrees with the player, and of its products alone."""
    written = write_c(stack, "model", int8=int8)
    wide = np.resize(x, max(stack.input_size, stack.output_size))
    sums = np.zeros(4 * stack.output_size, np.float32)
    with tempfile.TemporaryDirectory(prefix="unspool-bench-") as folder:
        step = compile_bench(written, STEPPING, Path(folder), "step")
        products = compile_bench(written, multiplying(written, stack), Path(folder), "products")
        player = unspool_steps(stack, x, PlayOptions(int8=int8))
        for _ in range(AGREED):
            call(step, x, sums, 1)()
            compare(title, "output", OURS, player(), "C", sums[: stack.output_size], OUTPUT)
        totals = np.zeros_like(sums)
        calls = {OURS: call(step, x, sums, STEPS), PRODUCTS: call(products, wide, totals, STEPS)}
        spreads = interleave(calls, settings.rounds)
    return Row("export", STEP, title, {name: per_step(spread) for name, spread in spreads.items()})


def multiplying(written: Written, stack: Stack) -> str:
    """C that multiplies the matrices of a step, one after the other, each with a vector."""
    found = re.findall(r"(float|int8_t) (\w+_[WU]_[a-z])\[", written.header)
    lines = []
    for number, (kind, name) in enumerate(found):
        product = "add_product" if kind == "float" else "add_product_int8"
        scale = "" if kind == "float" else f"w->{name}_scale, "
        inputs = stack.input_size if "_W_" in name else stack.output_size
        y = f"y + {number // 2 * stack.output_size}"
        lines.append(f"        model_{product}({y}, w->{name}, {scale}x, {inputs}, {stack.output_size});")
    return MULTIPLYING.replace("@", "\n".join(lines))


def compile_bench(written: Written, code: str, folder: Path, name: str) -> Function:
    """The function `bench` of a file that includes the model."""
    compiler = shutil.which(COMPILER)
    if compiler is None:
        raise CompilerError(f"there is no {COMPILER} on PATH")
    (folder / "model.c").write_text(written.code, encoding="utf-8")
    (folder / "model.h").write_text(written.header, encoding="utf-8")
    (folder / f"{name}.c").write_text(code, encoding="utf-8")
    command = [compiler, *OPTIONS, "-o", f"{name}.so", f"{name}.c", "-lm"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise CompilerError(f"{COMPILER} failed: {next(iter(done.stderr.strip().splitlines()), 'no message')}")
    function = ctypes.CDLL(str(folder / f"{name}.so")).bench
    function.argtypes, function.restype = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_long], None
    return function


def call(function: Function, x: Array, y: Array, steps: int) -> Call:
    """Some steps in one call; the arrays stay where they are."""
    return lambda: function(x.ctypes.data, y.ctypes.data, steps)


def per_step(spread: Spread) -> Spread:
    return Spread(spread.median / STEPS, spread.low / STEPS, spread.high / STEPS, spread.count)


def judge(rows: Iterable[Row]) -> list[Finding]:
    text = f"a step in C, in parts of {PRODUCTS}"
    steps = [row for row in rows if row.kind == STEP]
    return [Finding("export", text, 1 / row.ratio(PRODUCTS), "×", 1.5, False, row.case) for row in steps]
