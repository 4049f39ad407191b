"""What can only be measured in a process of its own: building a kernel, and the peak of memory."""

from __future__ import annotations

import gc
import json
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from unspool import nn as ours
from unspool.lab.bench import whole_model
from unspool.lab.bench.cases import Point
from unspool.lab.bench.settings import Settings
from unspool.lab.bench.user_cells import USER_CELLS


def build(title: str, input_size: str, hidden_size: str) -> dict[str, Any]:
    """Seconds from a user's class to its first output, less those of its second."""
    kind = USER_CELLS[title][0]
    x = torch.randn(1, 1, int(input_size))
    with torch.no_grad():
        started = time.perf_counter()
        layer = ours.Recurrent(kind, int(input_size), int(hidden_size))
        layer(x)
        first = time.perf_counter()
        layer(x)
        second = time.perf_counter()
    return {"seconds": (first - started) - (second - first), "engine": layer.engine}


def memory(contestant: str, sizes: str) -> dict[str, Any]:
    """Bytes that a training step of an LSTM needs at its peak, beyond what was there before."""
    B, T, I, H = Point.parse(sizes)  # noqa: E741
    layer = LAYERS[contestant](I, H)

    def train(steps: int) -> None:
        layer.zero_grad()
        layer(torch.randn(steps, B, I))[0].sum().backward()

    train(2)  # so that code, threads and gradients are there
    x = torch.randn(T, B, I)
    gc.collect()
    before = reset_peak()
    layer(x)[0].sum().backward()
    return {"bytes": peak() - before}


def model(name: str, contestant: str) -> dict[str, Any]:
    """Bytes that training a whole model needs at its peak, weights included, beyond what was there before it."""
    chosen = next(one for one in whole_model.MODELS if one.name == name)
    tiny = replace(chosen, tokens=8, width=8, rows=2, steps=2)
    settings = Settings(torch.get_num_threads(), 1, compile=contestant == "torch.compile")

    def make(size: Any) -> Any:
        return whole_model.make_updates(size, settings, lambda _: None, only=contestant)[contestant]

    make(tiny)()  # so that code and threads are there
    gc.collect()
    before = reset_peak()
    update = make(chosen)
    for _ in range(3):
        update()
    return {"bytes": peak() - before}


def reset_peak() -> int:
    """The resident bytes now, from where the peak starts again."""
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    return _status("VmRSS")


def peak() -> int:
    """The most bytes that were resident since `reset_peak`."""
    return _status("VmHWM")


def _status(name: str) -> int:
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{name}:"))


def recomputing(input_size: int, hidden_size: int) -> Any:
    """An LSTM that keeps every √T-th state only."""
    options: dict[str, Any] = {"recompute": "sqrt"}
    return ours.Recurrent("lstm", input_size, hidden_size, **options)


LAYERS: dict[str, Callable[[int, int], Any]] = {
    "unspool": ours.LSTM,
    "unspool, recompute": recomputing,
    "torch": torch.nn.LSTM,
}


def main(arguments: Sequence[str]) -> None:
    threads, what, *rest = arguments
    torch.set_num_threads(int(threads))
    tasks: dict[str, Callable[..., dict[str, Any]]] = {"build": build, "memory": memory, "model": model}
    print(json.dumps(tasks[what](*rest)))


if __name__ == "__main__":
    main(sys.argv[1:])
