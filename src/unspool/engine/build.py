"""From source to a loaded library: compiler, cache, instruction sets.

A library is kept in a private folder of the user's cache under a name made from everything that it depends on, and
put there by an atomic rename: processes that build the same cell at once both succeed, and half a file is never seen.
"""

from __future__ import annotations

import atexit
import ctypes
import functools
import hashlib
import os
import platform
import shutil
import stat
import subprocess
import tempfile
import threading
import warnings
from pathlib import Path

from unspool.errors import BuildError

NATIVE = Path(__file__).parent / "native"
FLAGS = (
    *("-std=c++17", "-O2", "-shared", "-fPIC", "-fvisibility=hidden", "-pthread"),
    *("-fno-math-errno", "-fno-trapping-math"),  # neither changes a result; both let loops be vectors
)


def enabled() -> bool:
    """Whether kernels may be used: they may unless the environment says UNSPOOL_ENGINE=off."""
    return os.environ.get("UNSPOOL_ENGINE", "on").lower() != "off"


_building = threading.Lock()
#: A library ends with so many bytes of checksum.
SIGNED = 32


def load(source: str, *defines: str) -> ctypes.CDLL:
    """The library of a source with these macros, from the cache if it is there, else compiled now."""
    with _building:
        return _load(source, defines)


@functools.lru_cache(maxsize=256)
def _load(source: str, defines: tuple[str, ...]) -> ctypes.CDLL:
    compiler = find_compiler()
    flags = (*FLAGS, *machine_flags(), *(f"-D{define}" for define in defines))
    try:
        path = cache_folder() / f"{_key(source, compiler, flags)}.so"
        if not _is_whole(path):
            if compiler is None:
                raise BuildError("no C++ compiler (c++, g++ or clang++) is on PATH. Install one to have kernels.")
            _compile(source, compiler, flags, path)
        return ctypes.CDLL(str(path))
    except OSError as error:
        raise BuildError(f"the kernel cannot be kept or loaded: {error}. Look at the compiler and the disk.") from error


def _is_whole(path: Path) -> bool:
    """Whether a library is as it was built: half a file, or a damaged one, would crash the process."""
    try:
        data = path.read_bytes()
    except OSError:
        return False
    return data[-SIGNED:] == hashlib.sha256(data[:-SIGNED]).digest()


def find_compiler() -> str | None:
    """The system's C++ compiler."""
    return next(filter(None, map(shutil.which, ("c++", "g++", "clang++"))), None)


@functools.cache
def machine_flags() -> tuple[str, ...]:
    """The instruction set to compile for: the widest that this processor has and that we know."""
    if platform.machine().lower() not in ("x86_64", "amd64"):
        return ()
    return {"avx512": ("-march=x86-64-v4",), "avx2": ("-march=x86-64-v3",), "baseline": ()}[instruction_set()]


@functools.cache
def instruction_set() -> str:
    """avx512, avx2 or baseline, as this processor has it."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="ascii", errors="ignore")
    except OSError:
        return "baseline"
    line = next((line for line in text.splitlines() if line.startswith("flags")), "")
    flags = set(line.split())
    if {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"} <= flags:
        return "avx512"
    return "avx2" if {"avx2", "fma", "bmi2"} <= flags else "baseline"


def cache_folder() -> Path:
    """The private folder of built kernels; a temporary one, with one warning, where that cannot be written."""
    chosen = os.environ.get("UNSPOOL_CACHE")
    try:
        base = Path(chosen) if chosen else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "unspool"
    except RuntimeError as error:  # a user without a home
        return _temporary_folder(str(error))
    try:
        base.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = base.stat()
    except OSError as error:
        return _temporary_folder(f"{base} cannot be made ({error})")
    if hasattr(os, "getuid") and (status.st_uid != os.getuid() or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)):
        raise BuildError(
            f"the folder of built kernels, {base}, can be written by others, so its code cannot be trusted. "
            "Run chmod 700 on it, or set UNSPOOL_CACHE to a private folder."
        )
    if not os.access(base, os.W_OK | os.X_OK):
        return _temporary_folder(f"{base} cannot be written")
    return base


@functools.cache
def _temporary_folder(why: str) -> Path:
    folder = Path(tempfile.mkdtemp(prefix="unspool-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    warnings.warn(f"{why}; kernels are built in {folder} and not kept.", RuntimeWarning, stacklevel=3)
    return folder


@functools.cache
def _headers() -> bytes:
    return b"".join(path.read_bytes() for path in sorted(NATIVE.glob("*.h")))


def _key(source: str, compiler: str | None, flags: tuple[str, ...]) -> str:
    digest = hashlib.sha256(_headers())
    for part in (source, str(compiler), *flags, platform.machine()):
        digest.update(b"\0" + part.encode())
    return digest.hexdigest()[:32]


def _compile(source: str, compiler: str, flags: tuple[str, ...], path: Path) -> None:
    with tempfile.TemporaryDirectory(dir=path.parent, prefix="build-") as folder:
        text, library = Path(folder) / "kernel.cpp", Path(folder) / "kernel.so"
        text.write_text(source, encoding="utf-8")
        command = [compiler, *flags, "-I", str(NATIVE), str(text), "-o", str(library), "-ldl"]
        done = subprocess.run(command, capture_output=True, check=False)
        if done.returncode or not library.exists():
            said = done.stderr.decode(errors="replace").strip()[-2000:]
            raise BuildError(f"{compiler} failed on the kernel (it returned {done.returncode}):\n{said}")
        try:
            ctypes.CDLL(str(library))  # what cannot be loaded is not kept
        except OSError as error:
            raise BuildError(f"{compiler} made a kernel that cannot be loaded: {error}") from error
        with library.open("r+b") as file:
            file.write(hashlib.sha256(file.read()).digest())  # behind what a loader reads
        library.chmod(0o700)
        os.replace(library, path)
