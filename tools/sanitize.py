"""Builds kernels with AddressSanitizer and UBSan and calls them: `make sanitize`. It exits with 1 on a report.

This process draws the cells and writes them down. A child without torch, into which the sanitizers are loaded first,
builds their kernels and calls them: see `sanitized_calls.py`. A second child makes the fuzzer's calls through
torch: see `sanitized_fuzz.py`.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

from tests.engine.random_cells import random_cell  # noqa: E402
from tests.variants import VARIANTS  # noqa: E402

from unspool.cells import document  # noqa: E402
from unspool.engine import build  # noqa: E402

#: What makes the child fail on purpose, so that it is known that it can.
PLANTS = ("overrun", "scratch", "misaligned")


def main() -> int:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("cells", nargs="*", help="names of tests/variants.py; without any, all of them")
    parser.add_argument("--random", type=int, default=36, help="how many random cells")
    parser.add_argument("--fuzz", type=int, default=400, help="how many calls of the fuzzer, through torch")
    parser.add_argument("--quick", action="store_true", help="without the optimiser, which takes most of the time")
    parser.add_argument("--plant", choices=PLANTS, help="a mistake to be found")
    options = parser.parse_args()
    cells = [VARIANTS[name] for name in options.cells or VARIANTS]
    texts = [document.dump(cell.equations()) for cell in cells]
    texts += [document.dump(random_cell(seed).equations(bias=seed % 8 != 0)) for seed in range(options.random)]
    start = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="unspool-sanitize-") as folder:
        (Path(folder) / "cells.json").write_text(json.dumps(texts), encoding="utf-8")
        calls, level = str(ROOT / "tools" / "sanitized_calls.py"), "-O0" if options.quick else "-O1"
        command = [sys.executable, calls, folder, level, options.plant or ""]
        failed = subprocess.run(command, env=os.environ | sanitizers(folder), check=False).returncode
    if options.fuzz and not failed:
        failed = fuzz(options.fuzz, level)
    print(f"{len(texts)} cells, {time.monotonic() - start:.0f} s: {'a report' if failed else 'clean'}")
    return 1 if failed else 0


def fuzz(count: int, level: str) -> int:
    """The fuzzer's first calls on kernels with sanitizers, in a child; what the child returns."""
    with tempfile.TemporaryDirectory(prefix="unspool-sanitize-") as folder:
        command = [sys.executable, str(ROOT / "tools" / "sanitized_fuzz.py"), folder, level, str(count)]
        return subprocess.run(command, env=os.environ | sanitizers(folder), check=False).returncode


def sanitizers(folder: str) -> dict[str, str]:
    """The child's environment: the sanitizers come before everything, and Python takes its memory from them too."""
    compiler = build.find_compiler()
    if compiler is None:
        raise SystemExit("no C++ compiler (c++, g++ or clang++) is on PATH. Install one.")
    found = [_library(compiler, name) for name in ("libasan.so", "libubsan.so")]
    return {
        "LD_PRELOAD": " ".join(found),
        "ASAN_OPTIONS": "detect_leaks=0:detect_stack_use_after_return=1",
        "UBSAN_OPTIONS": "print_stacktrace=1",
        "PYTHONMALLOC": "malloc",
        "UNSPOOL_CACHE": str(Path(folder) / "cache"),
        "UNSPOOL_ENGINE": "on",
    }


def _library(compiler: str, name: str) -> str:
    path = subprocess.run([compiler, f"-print-file-name={name}"], capture_output=True, text=True, check=True).stdout
    if not os.path.isabs(path.strip()):
        raise SystemExit(f"{compiler} has no {name}. Install the sanitizers of GCC.")
    return path.strip()


if __name__ == "__main__":
    sys.exit(main())
