"""Entry: a way into kernels through C++ alone, for calls so small that Python's steps take longer than the kernel.

Compiling it takes ten seconds and a gigabyte, once per version of torch, with the headers that come with torch. That
happens in the background of a program that makes many such calls and runs for a while. Where there is no compiler,
calls go through Python.
"""

from __future__ import annotations

import ctypes
import os
import sys
import sysconfig
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import torch
from filelock import FileLock, Timeout
from torch import Tensor

from unspool.engine import build
from unspool.engine.kernel import FORKED
from unspool.engine.signature import is_whole
from unspool.errors import BuildError, UnspoolError

SOURCE = Path(__file__).parent / "native" / "entry.cpp"
TORCH = Path(torch.__file__).parent
HEADERS = Path(sysconfig.get_path("include"))
FLAGS = (
    *("-std=c++20", "-O2", "-fPIC", "-fvisibility=hidden", "-w"),
    f"-D_GLIBCXX_USE_CXX11_ABI={int(torch.compiled_with_cxx11_abi())}",
    *("-I", str(TORCH / "include"), "-I", str(TORCH / "include" / "torch" / "csrc" / "api" / "include")),
    *("-I", str(HEADERS)),
)
#: Not dropped by a linker that has not seen them in use yet.
LIBRARIES = ("-Wl,--no-as-needed", "-L", str(TORCH / "lib"), "-ltorch", "-ltorch_cpu", "-ltorch_python", "-lc10")
#: Small calls in training after which the entry is worth its compiling; bytes of a tape up to which a call is small.
WORTH, SMALL = 300, 1 << 20
#: Seconds after that before a compiler starts, as a short program gains nothing by it; and that a process waits for
#: another one which compiles the entry.
DELAY, PATIENCE = 10.0, 300
#: Bytes that are free where a compiler is started unasked.
NEEDED = 2 << 30
#: Where Linux says how much memory there is, and what a container may use.
MACHINE, CONTAINER = Path("/proc/meminfo"), Path("/sys/fs/cgroup")

#: A chain's number, tensors, whether layers may run at once → output and final states, or nothing.
Call = Callable[[int, tuple[Tensor, ...], bool], tuple[Tensor, ...]]


class Plan(NamedTuple):
    """What the calls of a layer's kernel have in common: the parts of `Plan` in entry.cpp."""

    functions: Sequence[int]
    numbers: Sequence[int]
    lists: Sequence[Sequence[int]]
    shapes: Sequence[Sequence[int]]


class Entry:
    """The library and the function in it, once it is there."""

    #: The function; None as long as there is none.
    call: Call | None = None

    def __init__(self) -> None:
        self._calls, self._begun = 0, False
        self._why_not: str | None = None
        self._lock = threading.Lock()
        self._library: ctypes.PyDLL | None = None
        self._forked = 0

    def notice(self) -> None:
        """A small call went through Python. After many of them, compile in the background."""
        self._calls += 1
        if self._calls >= WORTH and not self._begun:  # a count by several threads may miss a number
            self._begun = True
            try:
                threading.Thread(target=self._prepare_later, name="unspool: compiler", daemon=True).start()
            except RuntimeError as error:  # no more threads, as at the end of a program
                self._why_not = str(error)

    def prepare(self) -> str | None:
        """Have the library, compiled now if it was not before. Why there is none, or None."""
        with self._lock:
            if self._library is None and self._why_not is None:
                try:
                    self._load()
                except Exception as error:  # whatever it is, calls go through Python
                    self._why_not = str(error) or type(error).__name__
        return self._why_not

    def _prepare_later(self) -> None:
        """Have the library now if it was compiled before, else compile it after a while, if there is memory."""
        try:
            compiler = build.find_compiler()
            if compiler is not None and not is_whole(_path(compiler)):
                time.sleep(DELAY)
                if (free := free_memory()) < NEEDED:
                    problem = f"a compiler needs memory, of which {free >> 20} MiB are free"
                    raise BuildError(f"{problem}. unspool check compiles it all the same.")
        except Exception as error:  # whatever it is, calls go through Python
            self._why_not = str(error) or type(error).__name__
        self.prepare()

    def add_chain(self, layers: Sequence[Plan], stacked: bool) -> int:
        """Name what the calls of layers have in common, of which each reads the one below, by a number.

        Args:
            layers: from the lowest up.
            stacked: whether the final states of all layers lie together; else each for itself.
        """
        if self._library is None:
            raise UnspoolError("the entry is not there yet")
        functions = [function for layer in layers for function in layer.functions]
        lists = [one for layer in layers for one in (*layer.lists, *layer.shapes)]

        def words(numbers: list[int]) -> ctypes.Array[ctypes.c_int64]:
            return (ctypes.c_int64 * len(numbers))(*numbers)

        return int(
            self._library.unspool_add_chain(
                ctypes.c_int64(len(layers)),
                ctypes.c_int64(SMALL),
                ctypes.c_int64(stacked),
                (ctypes.c_void_p * len(functions))(*functions),
                words([number for layer in layers for number in layer.numbers]),
                words(list(map(len, lists))),
                words([number for one in lists for number in one]),
                words([len(layer.shapes) for layer in layers]),
            )
        )

    def after_fork(self) -> None:
        """In the child of a fork the kernels' threads are gone, and so is the thread that compiles."""
        self._lock, self._forked = threading.Lock(), FORKED
        if self._library is not None:
            self._library.unspool_after_fork(FORKED)

    def _load(self) -> None:
        if sys.platform != "linux":
            raise BuildError("the entry in C++ is for Linux")
        compiler = build.find_compiler()
        if compiler is None:
            raise BuildError("no C++ compiler (c++, g++ or clang++) is on PATH")
        path = _path(compiler)
        if not is_whole(path):
            if not (HEADERS / "Python.h").exists():
                raise BuildError(
                    f"Python's headers are not in {HEADERS}. Install them, as with apt install python3-dev"
                )
            with _taking_turns(path):
                build.compile_once(SOURCE.read_text("utf-8"), (compiler, *FLAGS, "-shared"), path, *LIBRARIES)
        try:
            library = ctypes.PyDLL(str(path))  # its functions touch objects of Python's
            library.unspool_entry.restype = ctypes.py_object
            library.unspool_add_chain.restype = ctypes.c_int64
        except (OSError, AttributeError) as error:
            path.unlink(missing_ok=True)  # what cannot be loaded is not kept: the next process makes it anew
            raise BuildError(f"{compiler} made an entry that cannot be loaded: {error}") from error
        library.unspool_after_fork(self._forked)
        self._library = library
        self.call = library.unspool_entry()


def _path(compiler: str) -> Path:
    """Where the library is, or is to be."""
    parts = (torch.__version__, compiler, *FLAGS, *LIBRARIES)
    return build.kernel_folder() / f"{build.key(SOURCE.read_text('utf-8'), parts)}.so"


def free_memory() -> int:
    """Bytes that this process may still take: of the machine's memory, and of what its container is given."""
    free = [1024 * _read_table(MACHINE)["MemAvailable:"]]
    with suppress(OSError, ValueError, KeyError):  # no container, or one without a limit
        most, used = (int((CONTAINER / f"memory.{name}").read_text("utf-8")) for name in ("max", "current"))
        free.append(most - used + _read_table(CONTAINER / "memory.stat")["inactive_file"])
    return min(free)


def _read_table(path: Path) -> dict[str, int]:
    """The numbers of a file that has a name and a number in each line."""
    words = (line.split() for line in path.read_text("utf-8").splitlines())
    return {name: int(number) for name, number, *_ in words}


@contextmanager
def _taking_turns(path: Path) -> Iterator[None]:
    """One process at a time compiles this file: a compiler takes a gigabyte, and many processes may begin at once."""
    lock = FileLock(path.with_suffix(".lock"), timeout=PATIENCE, thread_local=False, fallback_to_soft=False)
    with suppress(Timeout, OSError):  # without a lock, each compiles its own, and the last one stays
        lock.acquire()
    try:
        yield
    finally:
        if lock.is_locked:
            with suppress(OSError):
                Path(lock.lock_file).unlink()  # whoever opened it before finds that it has no name, and tries again
        lock.release()


#: The one of this process.
ENTRY = Entry()
_count_modes = torch._C._len_torch_function_stack


def find_call() -> Call | None:
    """The entry's function, if it is there, and no mode of torch wants to see every function that is called."""
    return None if _count_modes() else ENTRY.call


if hasattr(os, "register_at_fork"):  # not on Windows, which has no forks
    os.register_at_fork(after_in_child=ENTRY.after_fork)
