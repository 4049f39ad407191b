"""How well are the slots of SNIPS queries found, without vectors that others have trained?

    python benchmarks/results/snips_slots.py snips --out runs/snips-slots

`snips` has the folders train, valid and test (13,084, 700 and 700 queries), in each seq.in, the words of one query a
line, and seq.out, their tags. The best weights are chosen on valid; test is read once, at the end. A span counts if its
kind and both its ends are right.
"""

from __future__ import annotations

import argparse
import json
import shlex
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch

import unspool
from unspool.learning.events import Evaluated, Event

#: What differs from the task's own defaults: nothing but its data.
SETTINGS: dict[str, Any] = {}


def write_columns(source: Path, target: Path) -> Path:
    """A part of SNIPS as a column file."""
    words, tags = ((source / name).read_text(encoding="utf-8").splitlines() for name in ("seq.in", "seq.out"))
    queries = [zip(one.split(), said.split(), strict=True) for one, said in zip(words, tags, strict=True)]
    blocks = ("".join(f"{word}\t{tag}\n" for word, tag in query) for query in queries)
    target.write_text("\n".join(blocks), encoding="utf-8")
    return target


def tell(event: Event) -> None:
    if isinstance(event, Evaluated):
        f1 = event.validation["span F1"]
        print(f"{event.seconds:6.0f} s  epoch {event.epoch:4.1f}  training {event.training:.4f}  span F1 {f1:.4f}")


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("snips", type=Path)
    options.add_argument("--out", type=Path, default=Path("runs/snips-slots"))
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--threads", type=int, default=2)
    options.add_argument("--set", nargs="*", default=[], metavar="NAME=VALUE", help="other settings than the recorded")
    asked = options.parse_args()
    changed = {name: json.loads(value) for name, value in (one.split("=", 1) for one in asked.set)}
    torch.set_num_threads(asked.threads)
    settings = {**SETTINGS, **changed, "seed": asked.seed}
    with tempfile.TemporaryDirectory() as folder:
        columns = {name: write_columns(asked.snips / name, Path(folder) / name) for name in ("train", "valid", "test")}
        files: dict[str, Any] = {"validation": [str(columns["valid"])], "test": [str(columns["test"])]}
        run = unspool.train(columns["train"], out=asked.out, force=True, tell=tell, task="tag", **files, **settings)
    finished = run.finished
    print(finished.sample)
    print(f"`python {shlex.join(sys.argv)}`: seed {asked.seed}, {finished.step:,} updates in {finished.seconds:.0f} s.")
    print("| | span F1 | precision | recall | accuracy of tags |\n|---|---|---|---|---|")
    for title, found in (("validation", finished.validation), ("**test**", finished.test)):
        figures = [f"{100 * found[name]:.2f}" for name in ("span F1", "precision", "recall", "accuracy")]
        print(f"| {title} | {' | '.join(figures)} |")


if __name__ == "__main__":
    main()
