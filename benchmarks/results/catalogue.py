"""Which recurrence buys what? Every cell of the catalogue on the same small tasks, with the same budget.

    python benchmarks/results/catalogue.py --text input.txt --seconds 300 --keep catalogue.jsonl
    python benchmarks/results/catalogue.py --cells gru mingru --tasks parity copying --seconds 20
    python benchmarks/results/catalogue.py --text input.txt --seconds 300 --keep catalogue.jsonl --write docs/results.md

A cell gets a number of CPU seconds per task on one core, so that a cheap recurrence makes more updates. All cells have
about as many parameters in their recurrent layers: one layer for cells in which matrices and nonlinear functions lead
from state to state, two for all others. What has been measured is kept in a file of JSON lines; the same command makes
only what is missing, or was measured with other equations. One seed, one learning rate, and the initial values and
options of each cell's definition.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import re
import shlex
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from small_tasks import TASKS, Question, choose_hidden, count_parameters, layers_of
from state_tracking import TESTED, TRAINED

from unspool.cells import CATALOGUE, document, find_cell
from unspool.errors import TrainingError, UnknownNameError, UnspoolError
from unspool.storage.files import write_file

#: The common cells, and those of the literature (docs/choosing.md), which the catalogue has behind "leaky".
CELLS = ("elman", "gru", "lstm", *list(CATALOGUE)[list(CATALOGUE).index("leaky") + 1 :])
#: In the order of the columns. S5 with all 120 letters takes minutes, so it is made only if it is asked for.
USUAL = [task for task in TASKS if task != "S5"]
#: What decides whether a record answers a question; the rest of it is what was found.
KEY = ("cell", "equations", "task", "seconds", "parameters", "seed", "lr", "data")
BEGIN, END = "<!-- recurrences: written by benchmarks/results/catalogue.py -->", "<!-- end of recurrences -->"
Record = dict[str, Any]


def read_seconds(given: Sequence[str]) -> dict[str, float]:
    """Seconds per task from `300` (all tasks) and `parity=20` (one); the later ones win."""
    found: dict[str, float] = {}
    for each in given:
        task, _, number = each.rpartition("=")
        if task:
            check_name("task", task, list(TASKS))
        try:
            seconds = float(number)
        except ValueError:
            seconds = math.nan
        if not 0 < seconds < math.inf:
            raise ValueError(f"--seconds {each} has no positive number. Write --seconds 60 or --seconds parity=20.")
        found |= dict.fromkeys([task] if task else TASKS, seconds)
    missing = [task for task in TASKS if task not in found]
    return found | dict.fromkeys(missing, 300.0)


def check_name(what: str, name: str, names: Sequence[str]) -> None:
    if name not in names:
        raise UnknownNameError.among(what, name, names)


def check_text(asked: argparse.Namespace) -> None:
    """Refuse a missing text before other tasks have trained for an hour."""
    if asked.text is None and "shakespeare" in asked.tasks:
        raise ValueError("Shakespeare needs a text. Give its file after --text.")
    if asked.text is not None and not asked.text.is_file():
        raise ValueError(f"--text {asked.text} is not a file. Give the file of tiny shakespeare.")


def read_kept(path: Path | None) -> list[Record]:
    """The records of earlier runs; a last line that was cut off is ignored."""
    if path is None or not path.exists():
        return []
    *whole, _ = path.read_text("utf-8").split("\n")
    return [json.loads(line) for line in whole if line]


def keep(path: Path | None, record: Record) -> None:
    """Add one line. A line that an earlier run did not finish is ended first, so that it spoils no other."""
    line = json.dumps(record) + "\n"
    if path is None:
        return
    with path.open("a+b") as file:
        end = file.seek(0, 2)
        file.seek(max(0, end - 1))
        cut = end > 0 and file.read(1) != b"\n"
        if cut:
            file.seek(0)
            file.truncate(file.read().rfind(b"\n") + 1)
        file.write(line.encode())


def key_of(cell: str, task: str, asked: argparse.Namespace) -> Record:
    data = {"shakespeare": asked.text, "digits": asked.mnist}.get(task)
    equations = hashlib.sha256(document.dump(find_cell(cell).equations()).encode()).hexdigest()[:12]
    values = (cell, equations, task, asked.seconds[task], asked.parameters, asked.seed, asked.lr, data and data.name)
    return dict(zip(KEY, values, strict=True))


def find(records: Sequence[Record], key: Record) -> Record | None:
    """The latest record with this key."""
    found = (record for record in reversed(records) if all(record.get(name) == value for name, value in key.items()))
    return next(found, None)


def measure(key: Record, asked: argparse.Namespace) -> Record:
    """One cell on one task. A cell that fails gets a record that says so."""
    cell, task = key["cell"], key["task"]
    hidden = choose_hidden(cell, asked.parameters)
    sizes = {"hidden": hidden, "counted": count_parameters(find_cell(cell), layers_of(cell), hidden)}
    question = Question(cell, hidden, asked.seconds[task], asked.seed, asked.lr, asked.text, asked.mnist)
    try:
        return {**key, **sizes, **TASKS[task](question)}
    except (ArithmeticError, TrainingError) as error:
        return {**key, **sizes, "failed": str(error)}


def make_missing(records: list[Record], asked: argparse.Namespace) -> None:
    """Task by task, so that whole columns become complete."""
    for task in asked.tasks:
        for cell in asked.cells:
            key = key_of(cell, task, asked)
            if find(records, key) is None:
                record = measure(key, asked)
                keep(asked.keep, record)
                records.append(record)
                print(json.dumps(record), flush=True)


def describe(record: Record | None) -> str:
    """What a cell of the table shows."""
    if record is None:
        return "–"
    if "failed" in record:
        return f"failed: {record['failed']}"
    task = record["task"]
    if task == "shakespeare":
        useless = record["loss"] > math.log(record["characters"])
        return f"{record['loss']:.3f}{', above uniform' if useless else ''} ({record['updates']:,})"
    if task in ("digits", "copying"):
        return f"{record['accuracy']:.1%}"
    found = " / ".join(f"{record['accuracy'][str(T)]:.0%}" for T in TESTED)
    return found if record["length"] == TRAINED else f"{found} ({record['length']} steps)"


def title(task: str, asked: argparse.Namespace) -> str:
    titles = {
        "parity": "parity",
        "shakespeare": "Shakespeare",
        "digits": f"digits, {784 if asked.mnist else 64} steps",
        "copying": "copying",
        "S5-two-letters": "S₅, two letters",
        "S5": "S₅, 120 letters",
    }
    return f"{titles[task]} ({asked.seconds[task]:g} s)"


def table(records: Sequence[Record], asked: argparse.Namespace) -> Iterator[str]:
    """A row per cell and a column per task, from the records of these budgets."""
    yield "| cell | layers × units | " + " | ".join(title(task, asked) for task in asked.tasks) + " |"
    yield "|---" * (2 + len(asked.tasks)) + "|"
    for cell in asked.cells:
        shown = [describe(find(records, key_of(cell, task, asked))) for task in asked.tasks]
        size = f"{layers_of(cell)} × {choose_hidden(cell, asked.parameters)}"
        yield f"| `{cell}` | {size} | " + " | ".join(shown) + " |"


def insert(page: str, lines: Iterator[str]) -> str:
    """The page with the table between its two marks made anew."""
    if BEGIN not in page or END not in page:
        raise ValueError(f"the page has no line {BEGIN} before {END}. Add both where the table belongs.")
    body = "\n".join(lines)
    return re.sub(
        f"{re.escape(BEGIN)}.*{re.escape(END)}", lambda _: f"{BEGIN}\n\n{body}\n\n{END}", page, flags=re.DOTALL
    )


def read_options(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--cells", nargs="+", default=CELLS, help="any name of the catalogue")
    options.add_argument("--tasks", nargs="+", default=USUAL, help=", ".join(TASKS))
    options.add_argument("--seconds", nargs="+", default=[], help="CPU seconds per cell and task: 300 or parity=20")
    options.add_argument("--parameters", type=int, default=50_000, help="of the recurrent layers, nearly")
    options.add_argument("--lr", type=float, default=3e-3, help="a third of it for state tracking")
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--text", type=Path, help="the file of tiny shakespeare")
    options.add_argument("--mnist", type=Path, help="a folder with MNIST; by default scikit-learn's digits")
    options.add_argument("--keep", type=Path, help="a file of JSON lines; what it has is not made again")
    options.add_argument("--write", type=Path, help="a page with the marks of the table; nothing is trained")
    asked = options.parse_args(arguments)
    try:
        for cell in asked.cells:
            check_name("cell", cell, list(CATALOGUE))
        for task in asked.tasks:
            check_name("task", task, list(TASKS))
        asked.seconds = read_seconds(asked.seconds)
        check_text(asked)
    except (UnspoolError, ValueError) as error:
        options.error(str(error))
    return asked


def main() -> None:
    asked = read_options()
    try:
        records = read_kept(asked.keep)
        if asked.write:
            write_file(asked.write, insert(asked.write.read_text("utf-8"), table(records, asked)).encode())
            return
        torch.set_num_threads(1)
        print(f"python {shlex.join(sys.argv)}", file=sys.stderr, flush=True)
        make_missing(records, asked)
    except (UnspoolError, OSError, ValueError) as error:
        sys.exit(str(error))
    print("\n".join(table(records, asked)))


if __name__ == "__main__":
    main()
