"""Does memory stay flat as the corpus grows? Prepares texts of two sizes, each in a process of its own.

    python benchmarks/corpus_memory.py --folder /tmp --megabytes 10,1000

`peak` is the growth of VmHWM while the corpus is prepared: the most bytes that were ever resident, which the kernel
notes by itself, less those before. `anonymous` is the growth of RssAnon, sampled every few milliseconds meanwhile: what
would have to be swapped, without pages of files. `read` is how far RssAnon has grown after all tokens were then read
once through in windows, and `mapped` the pages of token files (RssFile) that are resident then; the kernel takes those
back whenever it needs the room, so they are no growth. `again` is the time to find the same corpus in the cache.

The text is drawn, with a fixed seed, from 50,000 made-up words, the n-th of which has probability ∝ 1/n. A vocabulary
of words counts each different word of the training text, so its memory grows with their number, not with the text.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np

from unspool.data.batches import Windows
from unspool.data.corpus import Division, prepare

CASES = {
    "characters": ("char", None, Division()),
    "words": ("word", 10_000, Division()),
    "lines": ("char", None, Division("lines")),
}
MEGABYTE = 10**6
WORDS, A_LINE = 50_000, 12


def write_text(path: Path, megabytes: int, seed: int = 0) -> None:
    """A text of made-up words in lines of twelve."""
    generator = np.random.default_rng(seed)
    letters = np.frombuffer(b"etaoinshrdlcumwfgypbvk", np.uint8)
    words = np.array([letters[generator.integers(0, len(letters), 2 + n % 9)].tobytes().decode() for n in range(WORDS)])
    chances = np.cumsum(1 / np.arange(1, WORDS + 1))
    left = megabytes * MEGABYTE
    with path.open("wb") as stream:
        while left:
            drawn = words[np.searchsorted(chances, generator.random(10_000 * A_LINE) * chances[-1])]
            raw = "".join(" ".join(line) + "\n" for line in drawn.reshape(-1, A_LINE).tolist()).encode()[:left]
            stream.write(raw)
            left -= len(raw)


def measure(file: Path, case: str) -> dict[str, float]:
    """What preparing a file needs, in bytes and seconds."""
    ours, theirs = multiprocessing.get_context("fork").Pipe()
    child = multiprocessing.get_context("fork").Process(target=_prepare, args=(file, case, theirs))
    child.start()
    theirs.close()
    before, most = ours.recv(), 0
    while not ours.poll(0.005):
        most = max(most, _status("RssAnon", child.pid) - before)
    found: dict[str, float] = ours.recv() | {"anonymous": most}
    child.join()
    return found


def _prepare(file: Path, case: str, parent: Connection) -> None:
    tokens, limit, division = CASES[case]
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # VmHWM starts again
    resident, anonymous, mapped = map(_status, ("VmRSS", "RssAnon", "RssFile"))
    parent.send(anonymous)
    started = time.perf_counter()
    corpus = prepare(file, division, tokens, limit)
    seconds, peak = time.perf_counter() - started, _status("VmHWM") - resident
    count = sum(inputs.size for inputs, _ in Windows(corpus.training, 32, 512))
    read, pages = _status("RssAnon") - anonymous, _status("RssFile") - mapped
    started = time.perf_counter()
    prepare(file, division, tokens, limit)
    again = time.perf_counter() - started
    parent.send({"peak": peak, "seconds": seconds, "tokens": count, "read": read, "mapped": pages, "again": again})


def _status(name: str, process: int | None = None) -> int:
    lines = Path(f"/proc/{process or 'self'}/status").read_text(encoding="ascii").splitlines()
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{name}:")), 0)


def run(megabytes: Sequence[int], cases: Sequence[str], parent: Path | None) -> Iterator[dict[str, Any]]:
    """Each case at each size; nothing is left in the folder afterwards."""
    folder = Path(tempfile.mkdtemp(dir=parent, prefix="corpus-memory-"))
    os.environ["UNSPOOL_CACHE"] = str(folder / "cache")
    try:
        for size in megabytes:
            write_text(folder / "text.txt", size)
            for case in cases:
                yield {"megabytes": size, "case": case} | measure(folder / "text.txt", case)
                shutil.rmtree(folder / "cache")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description="Does memory stay flat as the corpus grows?")
    parser.add_argument("--folder", type=Path, help="where the texts and their tokens are kept for the time being")
    parser.add_argument("--megabytes", default="10,1000", help="sizes of the texts")
    parser.add_argument("--cases", default=",".join(CASES), help=f"of {', '.join(CASES)}")
    parser.add_argument("--json", action="store_true", help="one JSON object a line")
    said = parser.parse_args(arguments)
    if not Path("/proc/self/clear_refs").exists():
        parser.error("only Linux tells a process its peak of memory")
    columns = ("peak", "anonymous", "read", "mapped")
    if not said.json:
        print(f"{'case':12} {'text':>8} " + " ".join(f"{name:>10}" for name in columns) + "    seconds    again")
    for row in run([int(size) for size in said.megabytes.split(",")], said.cases.split(","), said.folder):
        if said.json:
            print(json.dumps(row), flush=True)
        else:
            sizes = " ".join(f"{row[name] / MEGABYTE:7.1f} MB" for name in columns)
            times = f"{row['seconds']:8.1f} s {row['again']:6.1f} s"
            print(f"{row['case']:12} {row['megabytes']:5} MB {sizes} {times}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
