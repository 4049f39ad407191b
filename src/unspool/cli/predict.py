"""unspool predict: predictions of a trained model for new data, as a table."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from unspool.cli.opening import Opened, open_run
from unspool.cli.predict_folder import is_folder, predict_folder
from unspool.cli.terminal import console
from unspool.data.delimited import find_suffix
from unspool.data.formats import find_format
from unspool.data.problems import Problems
from unspool.errors import ArgumentError, DataError, MissingPackageError
from unspool.partitions.predict import Options
from unspool.partitions.tables import PredictedTable, as_csv, as_json, check_finite, choose_top, make_table
from unspool.storage.files import write_file
from unspool.tasks.contract import PredictedRow, Task
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
    keep_columns: Annotated[
        bool, typer.Option("--keep-columns/--no-keep-columns", help="Write the columns of the input, too.")
    ] = True,
    out: Annotated[
        Path | None,
        typer.Option(
            help="A .csv or .jsonl file, or a folder: then each FILE has a file there, and finished ones are kept. "
            "Default: the table is printed.",
            show_default=False,
        ),
    ] = None,
    dask: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS",
            help="With a folder as --out: predict on a Dask cluster, such as tcp://10.0.0.1:8786, or local:2 for two "
            "processes on this machine.",
            show_default=False,
        ),
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
    int8: Annotated[
        bool, typer.Option("--int8", help="Round the model's matrices to 8 bits: a quarter of the memory.")
    ] = False,
) -> None:
    """Labels with probabilities, tags, numbers, forecasts with quantiles, or texts: one row per example.

    The data need not have targets. A row that cannot be read has no prediction, and a note that says why. For a series
    the steps after its end are predicted.

    The columns of a table come first, then the predictions. A column that is called like one of these, such as `label`,
    becomes `given label`.

    **Examples**

    - `unspool predict runs/intents new.csv --out predictions.csv`
    - `unspool predict runs/intents --text "play some jazz" --top 3`
    - `unspool predict runs/intents questions.txt`: one example per line
    - `cat questions.txt | unspool predict runs/intents -`
    - `unspool predict runs/co2 co2.csv`: the next months
    - `unspool predict runs/slots sentences.conll --json | head`
    - `unspool predict runs/intents --text "play some jazz" --int8`: the model in a quarter of the memory
    - `unspool predict runs/book chapter.txt --states features.npz`
    - `unspool predict runs/intents 'data/*.parquet' --out predictions/`: a file for each, and again for what is left
    - `unspool predict runs/intents 'data/*.parquet' --out predictions/ --dask local:2`: the same with two processes
    """
    if states is not None:
        others = {"text": text, "top": top, "out": out, "json": json, "int8": int8, "dask": dask}
        write_states(run, files, states, others)
        return
    if is_folder(out):
        options = Options(int8, top, keep_columns, "jsonl" if json else None)
        predict_folder(run, files, text, out, options, dask)
        return
    check_single(out, dask)
    if bool(files) == bool(text):
        raise ArgumentError.of("FILE", files, "must be given, or texts instead", 'Give a file, -, or --text "…"')
    opened = open_predictor(run, int8)
    task, model = opened.task, opened.model
    if top is not None:
        choose_top(task, top)
    rows = opened.use(lambda: check_finite(predict_rows(task, model, text, files or [])))
    table = make_table(rows, note_missing(rows, task.prediction_columns), keep_columns)
    write_table(table, out, json)


def check_single(out: Path | None, dask: str | None) -> None:
    """Refuse a cluster where there is one table only, and a table in an unknown format."""
    if dask is not None:
        problem = "is for many files, and `out` is no folder"
        raise ArgumentError.of("dask", dask, problem, "Give a folder as `out`, or leave it out")
    if out is not None and out.suffix.lower() not in FORMATS:
        raise ArgumentError.of(
            "out", str(out), "is neither CSV nor JSON lines", "End it in .csv or .jsonl, or give a folder"
        )


def write_states(run: Path, files: Sequence[str] | None, states: Path, others: Mapping[str, object]) -> None:
    """Write the states of a run over one file; refused beside options that are about predictions."""
    for name, value in others.items():
        if value:
            raise ArgumentError.of(name, value, "is about predictions, and `states` writes none", "Leave one out")
    if not files or len(files) > 1 or files[0] == STDIN:
        raise ArgumentError.of("FILE", files, "must be one file if states are written", "Give one file")
    with MissingPackageError.explaining("unspool predict --states"):
        from unspool.insight.states import check_npz, extract_states
    path = check_npz("states", states)
    found = extract_states(run, files[0])
    found.save(path)
    rows, width = found.values.shape
    console(error=True).print(f"{rows:,} states of {width} numbers in {path}", soft_wrap=True)


def predict_rows(task: Task, model: Any, texts: Sequence[str] | None, files: Sequence[str]) -> list[PredictedRow]:
    """The predictions for texts, or else for files."""
    if texts:
        return [PredictedRow({}, record) for record in task.predict_texts(model, texts)]
    return predict_sources(task, model, files)


def open_predictor(run: Path, int8: bool = False) -> Opened:
    """The task and the model of a run; refused where it generates text."""
    opened = open_run(run, int8=int8)
    task = opened.task
    if task.generates:
        remedy = f"Continue a text with it: unspool generate {run} --prompt TEXT"
        raise ArgumentError.of("run", str(run), f"is of the task {task.name}, which predicts no table", remedy)
    return opened


def write_table(table: PredictedTable, out: Path | None, lines: bool) -> None:
    """Print predictions, or write them to a file, as a table or as JSON lines."""
    lines = lines or (out is not None and out.suffix.lower() == ".jsonl")
    text = as_json(table.records) if lines else as_csv(table.records, table.columns, table.kept)
    if out is None:
        sys.stdout.write(text)
    else:
        write_file(out, text.encode())
        console(error=True).print(f"{len(table.records):,} predictions in {out}", soft_wrap=True)


def predict_sources(task: Task, model: Any, files: Sequence[str]) -> list[PredictedRow]:
    """The predictions for files; standard input, `-`, is read as the file that it would be."""
    if STDIN not in files:
        return list(task.predict_rows(model, files))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "stdin"
        path.write_bytes(sys.stdin.buffer.read())
        try:
            path = path.rename(path.with_suffix(stdin_suffix(task, path)))
            sources = [str(path) if file == STDIN else file for file in files]
            rows = list(task.predict_rows(model, sources))
        except DataError as error:
            raise DataError(str(error).replace(str(path), "standard input")) from error
    for row in rows:
        if NOTE in row.predicted:
            row.predicted[NOTE] = row.predicted[NOTE].replace(str(path), "standard input")
    return rows


def stdin_suffix(task: Task, path: Path) -> str:
    """`.csv` or `.tsv` where the first line names a column that is read; other formats show what they are.

    Tables without a header are taken for such where the training data was one.
    """
    if find_format(path) not in ("text", "labelled lines"):
        return ""
    series = not hasattr(task, "gather_texts")
    trained_on = getattr(getattr(task, "data", None), "files", None) or ("",)
    usual = Path(trained_on[0]).suffix.lower()
    return find_suffix(path, task.input_columns, usual) or (".csv" if series else "")


def note_missing(rows: Sequence[PredictedRow], columns: Sequence[str]) -> tuple[str, ...]:
    """The columns of predictions, with one for notes if there are any; these are also said in a warning."""
    notes = [row.predicted[NOTE] for row in rows if NOTE in row.predicted]
    Problems(notes).warn(f"{len(notes):,} of {len(rows):,} rows have no prediction.")
    return (*columns, NOTE) if notes else tuple(columns)
