"""What the scripts on SNIPS share: their options, the training on its parts, and the figures of both."""

from __future__ import annotations

import shlex
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from run_options import make_parser, parse

import unspool
from unspool.learning.events import Evaluated, Event

PARTS = ("train", "valid", "test")


def run(
    title: str | None,
    task: str,
    settings: Mapping[str, Any],
    write: Callable[[Path, Path], Path],
    suffix: str,
    columns: Mapping[str, str],
) -> tuple[Path, Path]:
    """Train as the command line says, and print the figures that `columns` names, by their titles, in percent.

    `write` makes a file that the task reads of a part of SNIPS. The first of the figures is told on the way.
    Gives the run's folder, and that of SNIPS.
    """
    name = Path(sys.argv[0]).stem.replace("_", "-")
    options = make_parser(title)
    options.add_argument("snips", type=Path)
    options.add_argument("--out", type=Path, default=Path("runs") / name)
    asked, changed = parse(options)
    told = next(iter(columns.values()))

    def tell(event: Event) -> None:
        if isinstance(event, Evaluated):
            done = f"{event.seconds:6.0f} s  epoch {event.epoch:4.1f}  training {event.training:.4f}"
            print(f"{done}  {told} {event.validation[told]:.4f}")

    with tempfile.TemporaryDirectory() as folder:
        files = {part: str(write(asked.snips / part, Path(folder) / f"{part}{suffix}")) for part in PARTS}
        held_out: dict[str, Any] = {"validation": [files["valid"]], "test": [files["test"]]}
        options_of_run = {**settings, **changed, "seed": asked.seed}
        trained = unspool.train(
            files["train"], out=asked.out, overwrite=True, tell=tell, task=task, **held_out, **options_of_run
        )
    finished = trained.finished
    print(finished.sample)
    print(f"`python {shlex.join(sys.argv)}`: seed {asked.seed}, {finished.step:,} updates in {finished.seconds:.0f} s.")
    print(row(["", *columns]) + "\n" + "|---" * (1 + len(columns)) + "|")
    for part, found in (("validation", finished.validation), ("**test**", finished.test)):
        print(row([part, *(f"{100 * found[figure]:.2f}" for figure in columns.values())]))
    return trained.path, asked.snips


def row(entries: Sequence[str]) -> str:
    """A line of a table."""
    return f"| {' | '.join(entries)} |".replace("|  |", "| |")
