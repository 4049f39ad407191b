"""Does memory stay flat as the number of series grows, and does one global model beat a model per series?

    python benchmarks/many_series.py --series 1000,100000 --steps 2000

Writes made-up monthly series as Parquet shards of 1,000 series, and trains one GRU on all of them, each number of
series in a process of its own. `peak` is the most bytes that were ever resident (VmHWM), `anonymous` those of them that
are not pages of files, which the kernel takes back when it needs the room (the most RssAnon, sampled).
`seconds_per_million` is the time of training per million steps of series that were read. MASE is that of forecasts of
the last 12 months, by the model for all series, and by the model, seasonal naive and an autoregression per series for
the same 1,000 of them.

A series has a level, a trend and a yearly pattern whose size follows the level; a pattern is one of eight, and a shock
to the level fades within months. Every series has 72 steps: too few to learn this from one, enough from all.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

MONTHS, SHARD, PATTERNS = 72, 1000, 8
SETTINGS: dict[str, Any] = {
    **{"task": "forecast", "horizon": 12, "lookback": 24, "season": 12, "validation": 12, "test": 12},
    **{"time_column": "month", "series_column": "series", "target": ["value"]},
    **{"cell": "gru", "hidden": 48, "batch_size": 128, "eval_limit": 2000, "seed": 0},
}


def make_values(count: int, seed: int) -> NDArray[np.float64]:
    """Series (count, months)."""
    chance = np.random.default_rng(seed)
    patterns = np.random.default_rng(0).normal(size=(PATTERNS, 12)).cumsum(1)
    patterns = (patterns - patterns.mean(1, keepdims=True)) / patterns.std(1, keepdims=True)
    months = np.arange(MONTHS)
    shift = chance.integers(0, 12, count)
    yearly = patterns[chance.integers(0, PATTERNS, count)[:, None], (months + shift[:, None]) % 12]
    shocks = np.zeros((count, MONTHS))
    for month in range(1, MONTHS):
        shocks[:, month] = 0.7 * shocks[:, month - 1] + 0.06 * chance.normal(size=count)
    trend = chance.normal(0, 0.004, (count, 1)) * months
    size = chance.uniform(0.1, 0.4, (count, 1))
    level = np.exp(chance.normal(3, 1, (count, 1)))
    found: NDArray[np.float64] = level * np.exp(trend + shocks) * np.exp(size * yearly)
    return found


def write_shards(folder: Path, count: int) -> None:
    """Parquet shards of at most 1,000 series each, in long form."""
    import polars as pl

    folder.mkdir()
    for first in range(0, count, SHARD):
        own = min(SHARD, count - first)
        values = make_values(own, 1 + first)
        names = np.repeat([f"series {number:06}" for number in range(first, first + own)], MONTHS)
        columns = {"series": names, "month": np.tile(np.arange(MONTHS), own), "value": values.ravel()}
        pl.DataFrame(columns).write_parquet(folder / f"shard-{first // SHARD:05}.parquet")


def train_all(folder: Path, steps: int) -> dict[str, Any]:
    """Train on a folder of shards, in this process; what it needed, and how good it is."""
    import unspool

    watch = Watch()
    started = time.perf_counter()
    run = unspool.train(folder / "shards", out=folder / "run", steps=steps, eval_every=steps, quiet=True, **SETTINGS)
    whole = time.perf_counter() - started
    finished = run.finished
    found = {"updates": finished.step, "seconds": whole, "MASE": finished.test["MASE"]}
    found |= {name: row["MASE"] for name, row in finished.test_baselines.items()}
    read = steps * SETTINGS["batch_size"] * SETTINGS["lookback"]
    found |= {"seconds_per_million": finished.seconds / read * 1e6, **watch.stop()}
    task: Any = run.task
    part = task.parts["test"].of_some(SHARD)
    return found | {"MASE_same_series": task.evaluate_part(run.learner, part)["MASE"]}


class Watch:
    """Samples the anonymous memory of this process until it is stopped."""

    def __init__(self) -> None:
        self._most, self._end = 0, threading.Event()
        self._thread = threading.Thread(target=self._sample, daemon=True)
        self._thread.start()

    def _sample(self) -> None:
        while not self._end.wait(0.02):
            self._most = max(self._most, status("RssAnon"))

    def stop(self) -> dict[str, int]:
        """The most bytes that were resident, and of these the most that were anonymous."""
        self._end.set()
        self._thread.join()
        return {"peak": status("VmHWM"), "anonymous": self._most}


def status(name: str) -> int:
    """An entry of /proc/self/status, in bytes."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{name}:")), 0)


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description="Does memory stay flat as the number of series grows?")
    parser.add_argument("--series", default="1000,100000", help="numbers of series")
    parser.add_argument("--steps", type=int, default=2000, help="updates of training")
    parser.add_argument("--folder", type=Path, help="where the series are kept for the time being")
    parser.add_argument("--inside", type=Path, help=argparse.SUPPRESS)  # the process that trains
    said = parser.parse_args(arguments)
    if said.inside is not None:
        print(json.dumps(train_all(said.inside, said.steps)), flush=True)
        return
    rows = []
    for count in map(int, said.series.split(",")):
        with tempfile.TemporaryDirectory(dir=said.folder, prefix="many-series-") as name:
            write_shards(Path(name) / "shards", count)
            command = [sys.executable, __file__, "--inside", name, "--steps", str(said.steps)]
            environment = os.environ | {"UNSPOOL_CACHE": f"{name}/cache"}
            done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
            rows.append({"series": count, **json.loads(done.stdout.splitlines()[-1])})
            print(json.dumps(rows[-1]), flush=True)
    ratios = {name: rows[-1][name] / rows[0][name] for name in ("peak", "anonymous")}
    print(json.dumps({"ratios": ratios}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
