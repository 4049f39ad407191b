"""How often is the intent of a SNIPS query understood, without vectors that others have trained?

    python benchmarks/results/snips_intents.py snips --out runs/snips-intents

`snips` has the folders train, valid and test (13,084, 700 and 700 queries), in each seq.in, the words of one query a
line, and label, one of seven intents. The best weights are chosen on valid; test is read once, at the end.
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

#: The vocabulary leaves out most of the words that occur once, so that the unknown word is learned.
SETTINGS: dict[str, Any] = {"tokens": "words", "vocabulary": 4400, "dropout": 0.5, "epochs": 10}


def write_table(source: Path, target: Path) -> Path:
    """A part of SNIPS as a table of texts and labels."""
    texts, labels = ((source / name).read_text(encoding="utf-8").splitlines() for name in ("seq.in", "label"))
    rows = (f"{' '.join(text.split())}\t{label.strip()}\n" for text, label in zip(texts, labels, strict=True))
    target.write_text("".join(("text\tlabel\n", *rows)), encoding="utf-8")
    return target


def tell(event: Event) -> None:
    if isinstance(event, Evaluated):
        right = event.validation["accuracy"]
        print(f"{event.seconds:6.0f} s  epoch {event.epoch:4.1f}  training {event.training:.4f}  accuracy {right:.4f}")


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("snips", type=Path)
    options.add_argument("--out", type=Path, default=Path("runs/snips-intents"))
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--threads", type=int, default=2)
    options.add_argument("--set", nargs="*", default=[], metavar="NAME=VALUE", help="other settings than the recorded")
    asked = options.parse_args()
    changed = {name: json.loads(value) for name, value in (one.split("=", 1) for one in asked.set)}
    torch.set_num_threads(asked.threads)
    settings = {**SETTINGS, **changed, "seed": asked.seed}
    with tempfile.TemporaryDirectory() as folder:
        names = ("train", "valid", "test")
        tables = {name: write_table(asked.snips / name, Path(folder) / f"{name}.tsv") for name in names}
        files: dict[str, Any] = {"validation": [str(tables["valid"])], "test": [str(tables["test"])]}
        run = unspool.train(tables["train"], out=asked.out, force=True, tell=tell, task="classify", **files, **settings)
    finished = run.finished
    print(finished.sample)
    print(f"`python {shlex.join(sys.argv)}`: seed {asked.seed}, {finished.step:,} updates in {finished.seconds:.0f} s.")
    print("| | accuracy | macro-F1 |\n|---|---|---|")
    for title, found in (("validation", finished.validation), ("**test**", finished.test)):
        print(f"| {title} | {100 * found['accuracy']:.2f} | {100 * found['macro-F1']:.2f} |")


if __name__ == "__main__":
    main()
