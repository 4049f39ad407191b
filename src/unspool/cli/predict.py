"""unspool predict: predictions of a trained model for new data, as a table."""

from __future__ import annotations

import csv
import io
import json as json_
import math
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from unspool.cli.terminal import console
from unspool.data.delimited import find_suffix
from unspool.data.formats import find_format
from unspool.data.problems import Problems
from unspool.errors import ArgumentError, DataError, DivergenceError
from unspool.insight.states import check_npz, extract_states
from unspool.learning.contract import Learner, Task
from unspool.learning.events import finite
from unspool.learning.files import write_file
from unspool.runs.load import load_run, use
from unspool.tasks.tolerant import NOTE

FORMATS = (".csv", ".jsonl")
#: Stands for standard input among files.
STDIN = "-"


def predict(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run folder.")],
    files: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="FILE",
            help="Data like that the model was trained on, text with one example per line, or - for standard input.",
        ),
    ] = None,
    text: Annotated[
        list[str] | None, typer.Option("--text", help="A text to predict for. May be repeated.", show_default=False)
    ] = None,
    top: Annotated[
        int | None,
        typer.Option(min=1, help="Write only this many of the best labels, with probabilities.", show_default=False),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="A .csv or .jsonl file. Default: the table is printed.", show_default=False)
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object per line.")] = False,
    states: Annotated[
        Path | None,
        typer.Option(
            help="Write the hidden states, one row per token, to this .npz file instead of predictions: features for "
            "another model. Any task; the data needs targets.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Labels with probabilities, tags, numbers, forecasts with quantiles, or texts: one row per example.

    The data need not have targets. A row that cannot be read has no prediction, and a note that says why. For a series
    the steps after its end are predicted.

    **Examples**

    - `unspool predict runs/intents new.csv --out predictions.csv`
    - `unspool predict runs/intents --text "play some jazz" --top 3`
    - `unspool predict runs/intents questions.txt`: one example per line
    - `cat questions.txt | unspool predict runs/intents -`
    - `unspool predict runs/co2 co2.csv`: the next months
    - `unspool predict runs/slots sentences.conll --json | head`
    - `unspool predict runs/book chapter.txt --states features.npz`
    """
    if states is not None:
        write_states(run, files, states, {"text": text, "top": top, "out": out, "json": json})
        return
    if out is not None and out.suffix.lower() not in FORMATS:
        raise ArgumentError.of("out", str(out), "is neither CSV nor JSON lines", "End it in .csv or .jsonl")
    if bool(files) == bool(text):
        raise ArgumentError.of("FILE", files, "must be given, or texts instead", 'Give a file, -, or --text "…"')
    task, learner = load_predictor(run)
    if top is not None:
        choose_top(task, top)
    records = use(run, learner, lambda: check_finite(predict_records(task, learner, text, files or [])))
    columns = note_missing(records, task.prediction_columns)
    write_records(records, columns, out, json)


def write_states(run: Path, files: Sequence[str] | None, states: Path, others: Mapping[str, object]) -> None:
    """Write the states of a run over one file; refused beside options that are about predictions."""
    for name, value in others.items():
        if value:
            raise ArgumentError.of(name, value, "is about predictions, and `states` writes none", "Leave one out")
    if not files or len(files) > 1 or files[0] == STDIN:
        raise ArgumentError.of("FILE", files, "must be one file if states are written", "Give one file")
    path = check_npz("states", states)
    found = extract_states(run, files[0])
    found.save(path)
    rows, width = found.values.shape
    console(error=True).print(f"{rows:,} states of {width} numbers in {path}", soft_wrap=True)


def predict_records(
    task: Task, learner: Learner, texts: Sequence[str] | None, files: Sequence[str]
) -> list[dict[str, Any]]:
    """The predictions for texts, or else for files."""
    return list(task.predict_texts(learner, texts)) if texts else predict_sources(task, learner, files)


def load_predictor(run: Path) -> tuple[Task, Learner]:
    """The task and the model of a run; refused where it generates text."""
    _, task, learner = load_run(run)
    if task.generates:
        remedy = f"Continue a text with it: unspool generate {run} --prompt TEXT"
        raise ArgumentError.of("run", str(run), f"is of the task {task.name}, which predicts no table", remedy)
    return task, learner


def write_records(records: Sequence[dict[str, Any]], columns: Sequence[str], out: Path | None, lines: bool) -> None:
    """Print predictions, or write them to a file, as a table or as JSON lines."""
    lines = lines or (out is not None and out.suffix.lower() == ".jsonl")
    table = as_json(records) if lines else as_csv(records, columns)
    if out is None:
        sys.stdout.write(table)
    else:
        write_file(out, table.encode())
        console(error=True).print(f"{len(records):,} predictions in {out}", soft_wrap=True)


def choose_top(task: Task, top: int) -> None:
    """Have a task predict only its best labels; refused where it predicts no labels."""
    if not hasattr(task, "top"):
        problem = f"is for labels, and the run is of the task {task.name}"
        raise ArgumentError.of("top", top, problem, "Leave it out")
    task.top = top


def predict_sources(task: Task, learner: Learner, files: Sequence[str]) -> list[dict[str, Any]]:
    """The predictions for files; standard input, `-`, is read as the file that it would be."""
    if STDIN not in files:
        return list(task.predict_files(learner, files))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "stdin"
        path.write_bytes(sys.stdin.buffer.read())
        try:
            path = path.rename(path.with_suffix(stdin_suffix(task, path)))
            sources = [str(path) if file == STDIN else file for file in files]
            records = list(task.predict_files(learner, sources))
        except DataError as error:
            raise DataError(str(error).replace(str(path), "standard input")) from error
    for record in records:
        if NOTE in record:
            record[NOTE] = record[NOTE].replace(str(path), "standard input")
    return records


def stdin_suffix(task: Task, path: Path) -> str:
    """`.csv` or `.tsv` where the first line names a column that is read; other formats show what they are."""
    if find_format(path) not in ("text", "labelled lines"):
        return ""
    series = not hasattr(task, "gather_texts")
    return find_suffix(path, task.input_columns) or (".csv" if series else "")


def note_missing(records: Sequence[dict[str, Any]], columns: Sequence[str]) -> tuple[str, ...]:
    """The columns of predictions, with one for notes if there are any; these are also said in a warning."""
    notes = [record[NOTE] for record in records if NOTE in record]
    Problems(notes).warn(f"{len(notes):,} of {len(records):,} rows have no prediction.")
    return (*columns, NOTE) if notes else tuple(columns)


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
