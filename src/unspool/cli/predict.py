"""unspool predict: what a trained model says of new data, as a table."""

from __future__ import annotations

import csv
import io
import json as json_
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import typer

from unspool.cli.terminal import console
from unspool.errors import ArgumentError
from unspool.learning.events import finite
from unspool.learning.files import write_file
from unspool.tasks.examples import ExampleLearner, ExampleTask
from unspool.tasks.load import load_run

FORMATS = (".csv", ".jsonl")


def predict(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The folder that `unspool train` made.")],
    files: Annotated[list[str], typer.Argument(metavar="FILE", help="Data like that it was trained on.")],
    out: Annotated[
        Path | None, typer.Option(help="A .csv or .jsonl file; else the table is printed.", show_default=False)
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object a line.")] = False,
) -> None:
    """Labels with probabilities, tags, numbers, forecasts with quantiles, or texts, one row an example.

    The data need not say what is right. For a series the steps after its end are foretold.

    **Examples**

    - `unspool predict runs/intents new.csv --out predictions.csv`
    - `unspool predict runs/co2 co2.csv`: the months that are to come
    - `unspool predict runs/slots sentences.conll --json | head`
    """
    if out is not None and out.suffix.lower() not in FORMATS:
        raise ArgumentError.of("out", str(out), "is neither CSV nor JSON lines", "End it in .csv or .jsonl")
    _, task, learner = load_run(run)
    if not isinstance(task, ExampleTask) or not isinstance(learner, ExampleLearner):
        remedy = f"Let it go on with a text: unspool generate {run} --prompt TEXT"
        raise ArgumentError.of("run", str(run), f"is of the task {task.name}, which predicts no table", remedy)
    records = list(task.predict(learner, task.read(files, answers=False)))
    lines = as_json(records) if json or (out is not None and out.suffix.lower() == ".jsonl") else as_csv(records)
    if out is None:
        sys.stdout.write(lines)
    else:
        write_file(out, lines.encode())
        console(error=True).print(f"{len(records):,} predictions in {out}", soft_wrap=True)


def as_json(records: Iterable[dict[str, Any]]) -> str:
    """One object a line."""
    return "".join(json_.dumps(finite(record), ensure_ascii=False) + "\n" for record in records)


def as_csv(records: list[dict[str, Any]]) -> str:
    """A table with a header; the entries of a list stand in one cell, with blanks between them."""
    text = io.StringIO()
    writer = csv.DictWriter(text, list(records[0]) if records else [], lineterminator="\n")
    writer.writeheader()
    for record in records:
        writer.writerow({name: _cell(value) for name, value in record.items()})
    return text.getvalue()


def _cell(value: Any) -> Any:
    if isinstance(value, float):
        return f"{value:.6g}"
    return " ".join(str(_cell(one)) for one in value) if isinstance(value, list | tuple) else value
