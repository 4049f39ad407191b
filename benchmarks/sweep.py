"""Does a sweep find settings at least as good as the default, the same ones on a cluster, and in half the time?

    python benchmarks/sweep.py snips --out runs/sweeps

`snips` is as in benchmarks/results/snips_intents.py. 24 random trials are trained one after the other, on two Dask
workers of this machine, and there again while workers are killed three times. All three must give the same trials.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
from limits import bounded

import unspool
from unspool.sweeps.course import Row
from unspool.sweeps.progress import print_progress
from unspool.sweeps.searching import Told
from unspool.sweeps.sweep import Swept

PARTS = ("train", "valid", "test")
#: Each sweep, and where its trials are trained.
SWEEPS: dict[str, dict[str, Any]] = {"serial": {"jobs": 1}, "local": {"dask": "local:2"}, "killed": {"dask": "local:2"}}
KILLS = 3


def write_table(source: Path, target: Path) -> str:
    """A part of SNIPS as a table of texts and labels."""
    texts, labels = ((source / name).read_text(encoding="utf-8").splitlines() for name in ("seq.in", "label"))
    rows = (f"{' '.join(text.split())}\t{label.strip()}\n" for text, label in zip(texts, labels, strict=True))
    target.write_text("".join(("text\tlabel\n", *rows)), encoding="utf-8")
    return str(target)


def outcome(row: Row) -> tuple[Any, ...]:
    """What must be the same wherever a trial is trained."""
    return row.number, row.state, dict(row.settings), dict(row.validation), dict(row.test)


class Killer:
    """A listener that kills the worker of a trial in the middle of its training, three times."""

    def __init__(self) -> None:
        self.killed: list[int] = []

    def __call__(self, told: Told) -> None:
        print_progress(told)
        for row in told.sweep.rows:
            due = row.state == "running" and 0.2 < row.course.fraction < 0.8 and row.number not in self.killed
            if due and len(self.killed) < KILLS and (worker := find_worker(row.folder)):
                print(f"killing worker {worker}, which trains trial {row.number}")
                os.kill(worker, signal.SIGKILL)
                self.killed.append(row.number)


def find_worker(run: Path) -> int | None:
    """The process that trains a run: it has the lock's file open."""
    for one in psutil.Process().children(recursive=True):
        with suppress(psutil.Error):
            if any(file.path == str(run.absolute() / ".lock") for file in one.open_files()):
                return int(one.pid)
    return None


def run(name: str, files: dict[str, str], asked: argparse.Namespace) -> tuple[Swept, float]:
    """One sweep, and how long it took."""
    out = asked.out / name
    shutil.rmtree(out, ignore_errors=True)
    held_out: dict[str, Any] = {"validation": [files["valid"]], "test": [files["test"]]}
    how: dict[str, Any] = {"trials": asked.trials, "sampler": "random", "prune": False, "epochs": asked.epochs}
    tell = Killer() if name == "killed" else print_progress
    began = time.monotonic()
    with bounded(f"the sweep {name}", asked.minutes):
        found = unspool.sweep(files["train"], out=out, **SWEEPS[name], **how, **held_out, seed=asked.seed, tell=tell)
    if found.reason != "done":
        raise SystemExit(f"{name}: {found.reason}")
    if isinstance(tell, Killer) and len(tell.killed) < KILLS:
        raise SystemExit(f"{name}: only {len(tell.killed)} of {KILLS} kills; give more --trials or --epochs")
    return found, time.monotonic() - began


def main() -> None:
    """Run the sweeps, compare them, and print what they took and found."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("snips", type=Path)
    options.add_argument("--out", type=Path, default=Path("runs/sweeps"))
    options.add_argument("--trials", type=int, default=24)
    options.add_argument("--epochs", type=float, default=1.0)
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--only", choices=SWEEPS, nargs="+", default=list(SWEEPS))
    options.add_argument("--minutes", type=float, default=45, help="the most that one of the sweeps may take")
    asked = options.parse_args()
    asked.out.mkdir(parents=True, exist_ok=True)
    files = {part: write_table(asked.snips / part, asked.out / f"{part}.tsv") for part in PARTS}
    found: dict[str, Swept] = {}
    seconds: dict[str, float] = {}
    for name in asked.only:
        known = f"about {max(seconds.values()) / 60:.0f} minutes or fewer" if seconds else "each trial tells its time"
        print(f"{name}: {asked.trials} trials, {known}, at most {asked.minutes:g} minutes", flush=True)
        found[name], seconds[name] = run(name, files, asked)
    report(found, seconds)


def report(found: dict[str, Swept], seconds: dict[str, float]) -> None:
    """Print what the sweeps took and found; fails where they differ."""
    first = next(iter(found))
    for name, swept in found.items():
        assert [*map(outcome, swept.trials)] == [*map(outcome, found[first].trials)], f"{name} differs from {first}"
        best, base = swept.best, swept.trials[0]
        assert best is not None
        print(f"{name}: {seconds[name]:.0f} s, {seconds[name] / seconds[first]:.2f} of {first}'s")
        print(f"  default validation {base.value:.4f}, test {base.test['accuracy']:.4f}")
        print(f"  best (trial {best.number}) validation {best.value:.4f}, test {best.test['accuracy']:.4f}")
    print(f"the same {len(found[first].trials)} trials in all of {', '.join(found)}")


if __name__ == "__main__":
    main()
