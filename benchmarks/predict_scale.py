"""Are predictions of many files the same on a cluster whose workers are killed, and how much faster are two workers?

    python benchmarks/predict_scale.py --rows 2000000 --partitions 200 --kills 12

Trains a small classifier on made-up sentences, writes Parquet partitions of others, and predicts them three times: with
one worker, with two, and with two of which some are killed (SIGKILL) at random moments. The output of the last two is
compared with the first, byte for byte. `memory` is the most bytes that a worker ever had resident (VmHWM), less those
of a worker that has done nothing; `speedup` is the time of one worker divided by that of two, without the start of the
cluster. A partition that was cut off is done again by another worker; `outputs` counts the files, which are one each.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from limits import bounded

from unspool.cluster import connect
from unspool.partitions.folder import OutputFolder
from unspool.partitions.inputs import find_partitions
from unspool.partitions.predict import Options, distribute, prepare_jobs

LABELS = ("weather", "music", "travel")
WORDS = 400


def make_texts(count: int, seed: int) -> tuple[list[str], list[str]]:
    """Sentences of 3 to 10 made-up words, each drawn mostly from the words of its label; and the labels."""
    chance = np.random.default_rng(seed)
    labels = chance.integers(0, len(LABELS), count)
    lengths = chance.integers(3, 11, count)
    ends = np.cumsum(lengths)
    owners = np.repeat(labels, lengths)
    drawn = chance.integers(0, WORDS, ends[-1])
    words = np.where(chance.random(ends[-1]) < 0.3, drawn * len(LABELS) + owners, drawn)
    spelled = [f"w{word}" for word in words.tolist()]
    starts = [0, *ends[:-1].tolist()]
    texts = [" ".join(spelled[start:end]) for start, end in zip(starts, ends.tolist(), strict=True)]
    return texts, [LABELS[label] for label in labels.tolist()]


def train_model(folder: Path) -> Path:
    """A run that classifies such sentences."""
    import polars as pl

    from unspool.runs.train import train

    texts, labels = make_texts(2000, 0)
    data = folder / "training.parquet"
    pl.DataFrame({"text": texts, "label": labels}).write_parquet(data)
    train(data, out=folder / "run", task="classify", tokenizer="word", cell="gru", hidden=64, steps=60, tell=_ignore)
    return folder / "run"


def _ignore(_: Any) -> None:
    return


def write_data(folder: Path, rows: int, partitions: int) -> None:
    """Parquet partitions with a number and a text per row."""
    import polars as pl

    folder.mkdir()
    each = rows // partitions
    for number in range(partitions):
        texts, _ = make_texts(each, 1 + number)
        frame = pl.DataFrame({"number": range(number * each, (number + 1) * each), "text": texts})
        frame.write_parquet(folder / f"part-{number:05}.parquet")


def predict(run: Path, data: Path, out: Path, workers: int, kills: int) -> dict[str, Any]:
    """Predict all partitions on a local cluster; some of its workers are killed meanwhile."""
    jobs, _ = prepare_jobs(run, [data], OutputFolder(out), Options(), threads=1)
    with connect(f"local:{workers}") as client:
        client.run(import_all)
        idle = max(client.run(peak_memory).values())
        killer = Killer(client.cluster, kills, len(jobs))
        started = time.perf_counter()
        rows = sum(outcome.finished.rows for outcome in killer.watch(distribute(jobs, client)) if outcome.finished)
        seconds = time.perf_counter() - started
        most = max(client.run(peak_memory, on_error="ignore").values(), default=idle)
    row = {"workers": workers, "rows": rows, "seconds": seconds, "rows_per_second": rows / seconds}
    return row | {"kills": killer.killed, "memory": most - idle, "outputs": len(find_partitions([out]))}


class Killer:
    """Kills a worker at random after some of the outcomes, also drawn at random."""

    def __init__(self, cluster: Any, kills: int, outcomes: int) -> None:
        self._cluster, self.killed = cluster, 0
        self._chance = random.Random(0)
        self._when = {*self._chance.sample(range(outcomes - 1), kills)}

    def watch(self, outcomes: Any) -> Any:
        for number, outcome in enumerate(outcomes):
            if number % 20 == 0:
                print(f"{number} partitions are finished", file=sys.stderr, flush=True)
            if number in self._when:
                threading.Timer(self._chance.random() / 10, self._kill).start()  # in the middle of a partition
            yield outcome

    def _kill(self) -> None:
        alive = [nanny.pid for nanny in list(self._cluster.workers.values()) if nanny.pid]
        if alive:
            os.kill(self._chance.choice(alive), signal.SIGKILL)
            self.killed += 1


def import_all() -> None:
    """Import what predictions need, so that it is not measured."""
    import polars  # noqa: F401

    import unspool.partitions.work  # noqa: F401


def peak_memory() -> int:
    """The most bytes that this process ever had resident."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:"))


def digest(folder: Path) -> str:
    """Of all visible files."""
    found = hashlib.sha256()
    for one in find_partitions([folder]):
        found.update(one.name.encode() + hashlib.sha256(one.path.read_bytes()).digest())
    return found.hexdigest()


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description="Predictions of many files on a cluster whose workers are killed.")
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--partitions", type=int, default=200)
    parser.add_argument("--kills", type=int, default=12)
    parser.add_argument("--folder", type=Path, help="where data and predictions are kept for the time being")
    parser.add_argument("--minutes", type=float, default=45, help="the most that one of the three may take")
    said = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(dir=said.folder, prefix="predict-scale-") as name:
        folder = Path(name)
        run = train_model(folder)
        write_data(folder / "data", said.rows, said.partitions)
        seconds: list[float] = []
        digests: list[str] = []
        for place, (workers, kills) in enumerate(((1, 0), (2, 0), (2, said.kills))):
            out = folder / f"out-{place}"
            known = f"about {seconds[0] / workers:.0f} s" if seconds else "no time known yet"
            print(f"{workers} workers, {kills} kills: {known}, at most {said.minutes:g} minutes", file=sys.stderr)
            with bounded(f"{workers} workers with {kills} kills", said.minutes):
                row = predict(run, folder / "data", out, workers, kills)
            seconds.append(row["seconds"])
            digests.append(digest(out))
            print(json.dumps(row | {"same": digests[-1] == digests[0]}), flush=True)
        print(json.dumps({"speedup": seconds[0] / seconds[1]}), flush=True)
        if len({*digests}) > 1:
            sys.exit("the predictions differ")


if __name__ == "__main__":
    main(sys.argv[1:])
