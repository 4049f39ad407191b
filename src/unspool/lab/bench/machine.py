"""The machine, as far as a timing depends on it."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import time
from pathlib import Path

import torch

from unspool.engine.build import instruction_set

SIDE = 2048
LIBRARIES = ("unspool", "torch", "numpy", "jax", "jaxlib", "onnxruntime")


def describe() -> dict[str, object]:
    """Processor, cores, system, versions."""
    return {
        "processor": processor(),
        "instructions": instruction_set(),
        "cores": cores(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "versions": {name: found for name in LIBRARIES if (found := version(name))},
    }


def processor() -> str:
    """The processor's name, as the system tells it."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="ignore").splitlines()
    except OSError:
        lines = []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, "") or platform.processor() or platform.machine()


def cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def version(name: str) -> str | None:
    """The installed version of a distribution, if it is installed."""
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


class MatrixProduct:
    """A large product in float32, the rate that the machine has to offer; it notices when it has to share the cores."""

    def __init__(self, side: int = SIDE) -> None:
        self.operations = 2.0 * side**3
        self._a, self._b = torch.randn(2, side, side)
        self._out = torch.empty(side, side)
        self.wall = self.processor = 0.0

    def __call__(self, times: int = 1) -> None:
        wall, processor = time.perf_counter(), time.process_time()
        for _ in range(times):
            torch.mm(self._a, self._b, out=self._out)
        self.wall += time.perf_counter() - wall
        self.processor += time.process_time() - processor

    def share(self, threads: int) -> float:
        """The part of its threads' time in which they ran: below 1 if others used the cores."""
        return self.processor / (self.wall * min(threads, cores())) if self.wall else 1.0
