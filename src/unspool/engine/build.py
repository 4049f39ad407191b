"""From source to a loaded library: the wheel's kernels, compiler, cache, instruction sets.

What is compiled here is kept in a private folder of the user's cache under a name made from everything that it depends
on, and put there by an atomic rename: processes that build the same cell at once both succeed, and half a file is never
seen. What many libraries have in common is compiled once, as an object that is linked to each of them.
"""

from __future__ import annotations

import atexit
import ctypes
import functools
import hashlib
import os
import platform
import shutil
import subprocess
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from unspool.cache import cache_folder, is_open_to_others
from unspool.engine import prebuilt
from unspool.engine.signature import is_whole, sign
from unspool.errors import BuildError

NATIVE = Path(__file__).parent / "native"
FLAGS = (
    *("-std=c++17", "-O2", "-fPIC", "-fvisibility=hidden", "-pthread"),
    *("-fno-math-errno", "-fno-trapping-math"),  # neither changes a result; both let loops be vectors
)
#: What a compiler for x86-64 is told to use an instruction set; others are told nothing.
MACHINE = {"avx512": ("-march=x86-64-v4",), "avx2": ("-march=x86-64-v3",), "baseline": ()}
#: The flags in /proc/cpuinfo of a processor that has all of x86-64-v3, and of v4.
V3 = {"abm", "avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "movbe"}
V4 = V3 | {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}
DAY = 24 * 60 * 60  # seconds; no build takes as long


#: The environment as os.environ keeps it: to look there for what is absent takes a tenth of the time, at every call.
_VARIABLES: Any = getattr(os.environ, "_data", os.environ)
_SWITCH: Any = os.environ.encodekey("UNSPOOL_ENGINE") if _VARIABLES is not os.environ else "UNSPOOL_ENGINE"


def enabled() -> bool:
    """Whether kernels may be used: they may unless the environment says UNSPOOL_ENGINE=off."""
    return _SWITCH not in _VARIABLES or os.environ["UNSPOOL_ENGINE"].lower() != "off"


class _Building:
    """One build at a time. A child of a fork has a lock of its own: the thread that held it is not there to let go."""

    lock = threading.Lock()

    @classmethod
    def after_fork(cls) -> None:
        cls.lock = threading.Lock()


if hasattr(os, "register_at_fork"):  # not on Windows, which has no forks
    os.register_at_fork(after_in_child=_Building.after_fork)


def load(source: str, *defines: str, common: str = "") -> ctypes.CDLL:
    """The library of a source with these macros: the wheel's, else from the cache, else compiled now.

    Args:
        source: C++; it may include the headers of `native/`.
        defines: Macros, such as `UNSPOOL_REAL=float`.
        common: C++ of what the source takes from elsewhere if the macro UNSPOOL_LINKED is defined.
    """
    with _Building.lock:
        return _load(source, defines, common)


@functools.lru_cache(maxsize=256)
def _load(source: str, defines: tuple[str, ...], common: str) -> ctypes.CDLL:
    flags = compiler_flags(instruction_set(), defines)
    shipped = prebuilt.find(shipped_path(prebuilt.FOLDER, instruction_set(), flags), key(source, flags))
    if shipped is not None:
        return shipped
    compiler = find_compiler()
    try:
        path = kernel_folder() / f"{key(source, (str(compiler), *flags))}.so"
        if not is_whole(path):
            if compiler is None:
                raise BuildError("no C++ compiler (c++, g++ or clang++) is on PATH. Install one to have kernels.")
            _compile_linked(source, compiler, flags, path, common)
        return ctypes.CDLL(str(path))
    except OSError as error:
        raise BuildError(f"the kernel cannot be kept or loaded: {error}. Look at the compiler and the disk.") from error


def _compile_linked(source: str, compiler: str, flags: tuple[str, ...], path: Path, common: str) -> None:
    """Compile a library, and beside it what it has in common with others, unless that is in the cache."""
    if not common:
        compile_library(source, compiler, flags, path)
        return
    plain = compiler_flags(instruction_set(), ())
    linked = path.with_name(f"{key(common, (compiler, *plain))}.o")

    def have_linked() -> Path:
        compile_once(common, (compiler, *plain, "-c"), linked)
        return linked

    with ThreadPoolExecutor(1) as beside:
        try:
            compile_library(source, compiler, flags, path, beside.submit(have_linked).result)
        except BuildError:
            linked.unlink(missing_ok=True)  # it may be what is wrong
            raise


def compiler_flags(instructions: str, defines: tuple[str, ...]) -> tuple[str, ...]:
    """All that a compiler is told about a library, but for the names of files."""
    return (*FLAGS, *MACHINE[instructions], *(f"-D{define}" for define in defines))


def shipped_path(folder: Path, instructions: str, flags: tuple[str, ...]) -> Path:
    """Where in a folder of shipped libraries the one lies whose kernels are all compiled with these flags."""
    return folder / instructions / f"{key('', flags)}.so"


def find_compiler() -> str | None:
    """The system's C++ compiler."""
    return next(filter(None, map(shutil.which, ("c++", "g++", "clang++"))), None)


def instruction_sets() -> tuple[str, ...]:
    """Those that kernels can be compiled for here."""
    return tuple(MACHINE) if platform.machine().lower() in ("x86_64", "amd64") else ("baseline",)


@functools.cache
def instruction_set() -> str:
    """The widest that this processor has and that we know: avx512, avx2 or baseline."""
    if instruction_sets() == ("baseline",):
        return "baseline"
    flags = _processor_flags()
    return "avx512" if flags >= V4 else "avx2" if flags >= V3 else "baseline"


def _processor_flags() -> set[str]:
    """What Linux says of the processor; nothing where it does not say."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="ascii", errors="ignore")
    except OSError:
        return set()
    return set(next((line for line in text.splitlines() if line.startswith("flags")), "").split())


def kernel_folder() -> Path:
    """The private folder of built kernels; a temporary one, with one warning, where that cannot be written."""
    try:
        folder = cache_folder()
    except RuntimeError as error:
        return _temporary_folder(str(error))
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        trusted = not is_open_to_others(folder)
    except OSError as error:
        return _temporary_folder(f"{folder} cannot be made ({error})")
    if not trusted:
        raise BuildError(
            f"the folder of built kernels, {folder}, can be written by others, so its code cannot be trusted. "
            "Run chmod 700 on it, or set UNSPOOL_CACHE to a private folder."
        )
    if not os.access(folder, os.W_OK | os.X_OK):
        return _temporary_folder(f"{folder} cannot be written")
    return folder


@functools.cache
def _temporary_folder(why: str) -> Path:
    folder = Path(tempfile.mkdtemp(prefix="unspool-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    warnings.warn(f"{why}; kernels are built in {folder} and not kept.", RuntimeWarning, stacklevel=3)
    return folder


@functools.cache
def _headers() -> bytes:
    return b"".join(path.read_bytes() for path in sorted(NATIVE.glob("*.h")))


def key(source: str, parts: tuple[str, ...]) -> str:
    """A name made from the content of a source, of what it includes, and of these other parts."""
    digest = hashlib.sha256(_headers())
    for part in (source, *parts, platform.machine()):
        digest.update(b"\0" + part.encode())
    return digest.hexdigest()[:32]


def compile_library(
    source: str, compiler: str, flags: tuple[str, ...], path: Path, linked: Callable[[], Path] | None = None
) -> None:
    """Compile a source, see that the result can be loaded, and put it in its place, signed, at once.

    Args:
        source: C++ of the library.
        compiler: The compiler's path.
        flags: What it is told, but for the names of files.
        path: Where the library goes.
        linked: Waits for an object that has what the source leaves out if UNSPOOL_LINKED is defined.
    """
    with _making(path) as library:
        if linked is None:
            _compile(source, (compiler, *flags, "-shared"), library, "-ldl")
        else:
            own = library.with_suffix(".o")
            _compile(source, (compiler, *flags, "-c", "-DUNSPOOL_LINKED=1"), own)
            _run_compiler((compiler, *flags, "-shared"), library, str(own), str(linked()), "-ldl")
        try:
            ctypes.CDLL(str(library))  # what cannot be loaded is not kept
        except OSError as error:
            raise BuildError(f"{compiler} made a kernel that cannot be loaded: {error}") from error


def compile_once(source: str, command: tuple[str, ...], path: Path, *libraries: str) -> None:
    """Have a file of the cache, compiled now if it is not there.

    Args:
        source: C++.
        command: The compiler and what it is told, but for the names of files.
        path: Where the file goes.
        libraries: What comes behind the source.
    """
    if not is_whole(path):
        with _making(path) as made:
            _compile(source, command, made, *libraries)


def _compile(source: str, command: tuple[str, ...], path: Path, *libraries: str) -> None:
    text = path.with_suffix(".cpp")
    text.write_text(source, encoding="utf-8")
    _run_compiler((*command, "-I", str(NATIVE)), path, str(text), *libraries)


def _run_compiler(command: tuple[str, ...], path: Path, *files: str) -> None:
    done = subprocess.run((*command, *files, "-o", str(path)), capture_output=True, check=False)
    if done.returncode or not path.exists():
        said = done.stderr.decode(errors="replace").strip()[-2000:]
        raise BuildError(f"{command[0]} failed on the kernel (it returned {done.returncode}):\n{said}")


@contextmanager
def _making(path: Path) -> Iterator[Path]:
    """A path to make a file at; at the end it is signed and put in its place, seen whole or not at all."""
    _remove_leftovers(path.parent)
    with tempfile.TemporaryDirectory(dir=path.parent, prefix="build-") as folder:
        made = Path(folder) / path.name
        yield made
        sign(made)
        made.chmod(0o700)
        os.replace(made, path)


def _remove_leftovers(folder: Path) -> None:
    """Remove what builds left behind whose processes were killed, a day after."""
    for left in folder.glob("build-*"):
        with suppress(OSError):
            if time.time() - left.stat().st_mtime > DAY:
                shutil.rmtree(left, ignore_errors=True)
