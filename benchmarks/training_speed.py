"""One training run, everything else equal: our layers against torch.nn's inside it; and what the loop itself costs.

    python benchmarks/training_speed.py input.txt

A character model of two layers of 256, 32 rows, 64 steps. The contestants take turns of some seconds; the ratio is that
of their medians. The loop's overhead is the share of its time outside the model, its loss, the backward pass and the
optimizer's step: batches, clipping, checks, events.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from unspool.learning.loop import Loop
from unspool.runs.fitting import prepare_task
from unspool.runs.train import make_loop, plan


def character_loop(text: Path, cell: str, engine: str) -> Loop:
    config = plan(text, cell=cell, hidden=256, layers=2, batch_size=32, bptt=64, engine=engine, epochs=1000)
    return make_loop(*prepare_task(config))


class Stopwatch:
    """Time spent in some functions."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def around(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*args: Any, **options: Any) -> Any:
            begun = time.perf_counter()
            try:
                return function(*args, **options)
            finally:
                self.seconds += time.perf_counter() - begun

        return timed


def overhead(loop: Loop, seconds: float) -> float:
    """The share of the loop's time outside forward, backward and step."""
    watch = Stopwatch()
    loop.model.forward = watch.around(loop.model.forward)
    loop.optimizer.step = watch.around(loop.optimizer.step)  # type: ignore[method-assign]
    backward = torch.Tensor.backward
    torch.Tensor.backward = watch.around(backward)  # type: ignore[method-assign]
    try:
        begun = time.perf_counter()
        loop.rehearse(seconds)
        return 1 - watch.seconds / (time.perf_counter() - begun)
    finally:
        torch.Tensor.backward = backward  # type: ignore[method-assign]


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("text", type=Path)
    options.add_argument("--rounds", type=int, default=7)
    options.add_argument("--seconds", type=float, default=3.0, help="of a turn")
    asked = options.parse_args()
    torch.set_num_threads(2)
    for cell in ("lstm", "gru-reset-after"):
        loops = {engine: character_loop(asked.text, cell, engine) for engine in ("kernel", "torch")}
        times: dict[str, list[float]] = {engine: [] for engine in loops}
        for _ in range(asked.rounds):
            for engine, loop in loops.items():
                times[engine].append(loop.rehearse(asked.seconds))
        speeds = {engine: 32 * 64 / statistics.median(found) for engine, found in times.items()}
        shown = ", ".join(f"{engine} {speed:,.0f} characters/s" for engine, speed in speeds.items())
        print(f"{cell}: {shown}, ratio {speeds['kernel'] / speeds['torch']:.2f}")
    print(f"overhead of the loop: {overhead(character_loop(asked.text, 'lstm', 'kernel'), 4 * asked.seconds):.1%}")


if __name__ == "__main__":
    main()
