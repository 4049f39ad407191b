"""unspool predict: predictions of a trained model for new data, as a table."""

from __future__ import annotations

import csv
import io
import json as json_
import math
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from unspool.cli.terminal import console
from unspool.errors import ArgumentError, DivergenceError
from unspool.learning.events import finite
from unspool.learning.files import write_file
from unspool.runs.load import load_run, use

FORMATS = (".csv", ".jsonl")


def predict(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run folder.")],
    files: Annotated[list[str], typer.Argument(metavar="FILE", help="Data like that the model was trained on.")],
    out: Annotated[
        Path | None, typer.Option(help="A .csv or .jsonl file. Default: the table is printed.", show_default=False)
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object per line.")] = False,
) -> None:
    """Labels with probabilities, tags, numbers, forecasts with quantiles, or texts: one row per example.

    The data need not have targets. For a series the steps after its end are predicted.

    **Examples**

    - `unspool predict runs/intents new.csv --out predictions.csv`
    - `unspool predict runs/co2 co2.csv`: the next months
    - `unspool predict runs/slots sentences.conll --json | head`
    """
    if out is not None and out.suffix.lower() not in FORMATS:
        raise ArgumentError.of("out", str(out), "is neither CSV nor JSON lines", "End it in .csv or .jsonl")
    _, task, learner = load_run(run)
    if task.generates:
        remedy = f"Continue a text with it: unspool generate {run} --prompt TEXT"
        raise ArgumentError.of("run", str(run), f"is of the task {task.name}, which predicts no table", remedy)
    records = use(run, learner, lambda: check_finite(list(task.predict_files(learner, files))))
    lines_wanted = json or (out is not None and out.suffix.lower() == ".jsonl")
    text = as_json(records) if lines_wanted else as_csv(records, task.prediction_columns)
    if out is None:
        sys.stdout.write(text)
    else:
        write_file(out, text.encode())
        console(error=True).print(f"{len(records):,} predictions in {out}", soft_wrap=True)


def check_finite(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The records; refused where a prediction is not finite, as those of a model that has diverged are."""
    for number, record in enumerate(records, 1):
        for name, value in record.items():
            entries = value if isinstance(value, list | tuple) else [value]
            if any(isinstance(entry, float) and not math.isfinite(entry) for entry in entries):
                raise DivergenceError(f"prediction {number} has a `{name}` that is not finite")
    return records


def as_json(records: Iterable[dict[str, Any]]) -> str:
    """One object per line."""
    return "".join(json_.dumps(finite(record), ensure_ascii=False) + "\n" for record in records)


def as_csv(records: Iterable[dict[str, Any]], columns: Sequence[str]) -> str:
    """A table with a header; the entries of a list are in one cell, separated by spaces."""
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    for record in records:
        writer.writerow({name: _cell(value) for name, value in record.items()})
    return text.getvalue()


def _cell(value: Any) -> Any:
    if isinstance(value, float):
        return f"{value:.6g}"
    return " ".join(str(_cell(one)) for one in value) if isinstance(value, list | tuple) else value
