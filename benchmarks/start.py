"""How soon, and in how much memory, is the first prediction there: with the player, and with torch?

    python benchmarks/start.py [RUN] [--times 9]

Each time a fresh process loads the same run and predicts once; the contestants take turns, and medians are printed.
RUN is one of a language model, or one that predicts from texts; without it a small language model is trained.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import NamedTuple

#: The end of every contestant: one prediction, and then the largest resident memory of the process in bytes.
FIRST = """
if task.generates:
    prediction = "".join(generator().stream("", 1, Sampling(1.0), seed=0))
else:
    prediction = next(iter(task.predict_texts(model, ["a text"])))
assert prediction is not None
import resource
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024))
"""
CONTESTANTS = {
    "player": """
import sys
import unspool
from unspool.decoding.sampling import Sampling
player = unspool.load(sys.argv[1])
task, model, generator = player.task, player.model, player.generator
"""
    + FIRST,
    "torch": """
import sys
from unspool.decoding.sampling import Sampling
from unspool.runs.load import load_run
config, task, model = load_run(sys.argv[1])
def generator():
    from unspool.runs.generator import TextGenerator
    return TextGenerator(model, task.vocabulary, config, sys.argv[1])
"""
    + FIRST,
    "import torch alone": """
import resource, sys, torch
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024))
""",
}
TRAIN = """
import sys, unspool
text = "the quick brown fox jumps over the lazy dog; then it sleeps.\\n" * 90
open(sys.argv[1] + "/text.txt", "w").write(text)
unspool.train(sys.argv[1] + "/text.txt", out=sys.argv[1] + "/run", hidden=128, steps=20, eval_every=20, quiet=True)
"""


class Start(NamedTuple):
    """One start of a process, up to its first prediction."""

    seconds: float
    bytes: int


def start(code: str, run: Path) -> Start:
    """Start a process, and wait until it has predicted.

    This process must stay small: Linux counts the memory of a parent at the time of the start as the child's.
    """
    began = time.perf_counter()
    with subprocess.Popen([sys.executable, "-c", code, str(run)], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        said = process.stdout.readline()
        seconds = time.perf_counter() - began
    if process.returncode:
        raise SystemExit(f"{run} cannot be measured: see above")
    return Start(seconds, int(said))


@contextmanager
def found_run(given: Path | None) -> Iterator[Path]:
    """The run that was given, or a small one that is trained in another process and removed afterwards."""
    if given is not None:
        yield given
        return
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, "-c", TRAIN, folder], check=True)
        yield Path(folder) / "run"


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description="Time and memory to the first prediction.")
    parser.add_argument("run", nargs="?", type=Path, metavar="RUN")
    parser.add_argument("--times", type=int, default=9)
    given = parser.parse_args()
    measured: dict[str, list[Start]] = {name: [] for name in CONTESTANTS}
    with found_run(given.run) as run:
        for code in CONTESTANTS.values():
            start(code, run)  # kernels are compiled, and files are in the system's cache
        for _ in range(given.times):
            for name, code in CONTESTANTS.items():
                measured[name].append(start(code, run))
    seconds = {name: median(one.seconds for one in found) for name, found in measured.items()}
    megabytes = {name: median(one.bytes for one in found) / 1e6 for name, found in measured.items()}
    for name in CONTESTANTS:
        print(f"{name:20}{seconds[name]:8.3f} s{megabytes[name]:8.1f} MB")
    faster, smaller = seconds["torch"] / seconds["player"], megabytes["player"] / megabytes["torch"]
    print(f"the player is {faster:.1f} times as fast as torch, in {smaller:.2f} of its memory")


if __name__ == "__main__":
    main()
