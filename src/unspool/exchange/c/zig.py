"""Compiles exported C with zig, a compiler for many targets in a Python package: to WebAssembly and for Cortex-M4."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from unspool.cache import cache_folder
from unspool.errors import ArgumentError, MissingPackageError, UnspoolError
from unspool.exchange.c.source import Written

#: What the model's functions leave to their caller: memory. Blocks are given one after the other, and freed at once.
GLUE = """\
#include "@.h"

extern unsigned char __heap_base;
static size_t @_used;

size_t @_state_size(void);
void *@_allocate(size_t size);
void @_release(void);

size_t @_state_size(void)
{
    return sizeof(@_state);
}

/* Memory for the caller, aligned to 16 bytes; NULL where there is no more. */
void *@_allocate(size_t size)
{
    const size_t first = ((size_t)&__heap_base + @_used + 15) & ~(size_t)15;
    if (size > SIZE_MAX - 65535 - first)
        return NULL;
    const size_t pages = __builtin_wasm_memory_size(0), needed = (first + size + 65535) / 65536;
    if (needed > pages && __builtin_wasm_memory_grow(0, needed - pages) == (size_t)-1)
        return NULL;
    @_used = first + size - (size_t)&__heap_base;
    return (void *)first;
}

/* All memory that `allocate` gave is free again. */
void @_release(void)
{
    @_used = 0;
}
"""
#: What 32 bits address, and what of it is left for the stack, the state and the inputs.
MEMORY, LEFT = 2**32, 2**26
OWN = ("state_size", "allocate", "release")
WASM = (
    *("-target", "wasm32-freestanding", "-std=c99", "-O3", "-msimd128", "-ffreestanding", "-nostdlib", "-g0"),
    *("-fno-sanitize=all", "-Wl,--no-entry", "-Wl,--strip-all"),
)
CORTEX_M4 = (
    *("-target", "thumb-freestanding-eabihf", "-mcpu=cortex_m4+vfp4d16sp", "-std=c99", "-Os", "-ffreestanding"),
    *("-nostdlib", "-fno-sanitize=all", "-ffunction-sections", "-g0", "-c"),
)


def compile_wasm(written: Written) -> bytes:
    """Compile exported C to WebAssembly that needs nothing from its host.

    Besides the model's functions it exports `NAME_state_size()`, `NAME_allocate(bytes)` and `NAME_release()`.

    Args:
        written: What `write_c` gave, with its weights inside and without a program.

    Returns:
        The bytes of the module.

    Raises:
        ArgumentError: The weights do not fit into the memory of a module.
        MissingPackageError: ziglang is not installed.
        UnspoolError: The compiler failed.

    Example:
        Path("model.wasm").write_bytes(compile_wasm(write_c(network, "model")))
    """
    if written.weights_size > MEMORY - LEFT:
        problem = f"has weights of {written.weights_size:,} bytes, and wasm32 has memory for {MEMORY - LEFT:,}"
        raise ArgumentError.of("network", written.name, problem, "Give `int8=True`, or export C with separate weights")
    glue = GLUE.replace("@_", f"{written.name}_").replace("@.h", f"{written.name}.h")
    public = re.findall(rf"\b({written.name}_\w+)\(", re.sub(r"/\*.*?\*/", "", written.header, flags=re.DOTALL))
    exported = [f"-Wl,--export={name}" for name in (*public, *(f"{written.name}_{one}" for one in OWN))]
    return compile_with_zig(written, (*WASM, *exported), {"glue.c": glue})


def compile_with_zig(written: Written, options: Sequence[str], more: dict[str, str] | None = None) -> bytes:
    """Compile exported C, and perhaps further files, with options of clang; the bytes of what comes out."""
    with MissingPackageError.explaining("WebAssembly"):
        if importlib.util.find_spec("ziglang") is None:
            raise ModuleNotFoundError("No module named 'ziglang'", name="ziglang")
    with tempfile.TemporaryDirectory() as folder:
        files = {f"{written.name}.c": written.code, f"{written.name}.h": written.header, **(more or {})}
        for name, text in files.items():
            (Path(folder) / name).write_text(text, encoding="utf-8")
        sources = [name for name in files if name.endswith(".c")]
        command = [sys.executable, "-m", "ziglang", "cc", *options, "-o", "out", *sources]
        cache = {
            "ZIG_GLOBAL_CACHE_DIR": str(cache_folder() / "zig"),
            "ZIG_LOCAL_CACHE_DIR": str(Path(folder) / "cache"),
        }
        done = subprocess.run(
            command, cwd=folder, env={**os.environ, **cache}, capture_output=True, text=True, check=False
        )
        if done.returncode:
            said = next(iter(done.stderr.strip().splitlines()), "no message")
            raise UnspoolError(f"zig cannot compile the exported C: {said}. Check the installation of ziglang.")
        return (Path(folder) / "out").read_bytes()
