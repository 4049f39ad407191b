"""Tables of predictions: the columns of the input beside those of the predictions, as CSV and as JSON lines."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from unspool.errors import ArgumentError, DivergenceError
from unspool.storage.documents import finite
from unspool.tasks.contract import PredictedRow, Task


class PredictedTable(NamedTuple):
    """Records, and their columns: those of the input, if any, and then those of the predictions."""

    records: list[dict[str, Any]]
    kept: tuple[str, ...]
    columns: tuple[str, ...]


def make_table(rows: Sequence[PredictedRow], columns: Sequence[str], keep: bool = True) -> PredictedTable:
    """Rows of the input beside the predictions for them.

    Args:
        rows: The rows.
        columns: Those of predictions, the first of which tells what a prediction is for.
        keep: Whether the input's columns are kept, in place of that first one. One that has the name of a column of
            predictions is renamed: `label` is always the prediction.
    """
    given = dict.fromkeys(name for row in rows for name in row.given) if keep else {}
    if not given:
        return PredictedTable([row.predicted for row in rows], (), tuple(columns))
    columns = columns[1:]
    names = name_kept(given, columns)
    records = [
        {free: row.given.get(name) for name, free in names.items()}
        | {name: row.predicted[name] for name in columns if name in row.predicted}
        for row in rows
    ]
    return PredictedTable(records, tuple(names.values()), tuple(columns))


def name_kept(given: Iterable[str], columns: Sequence[str]) -> dict[str, str]:
    """The names of the input's columns beside those of predictions: `label` becomes `given label` where both have it.

    Args:
        given: The columns of the input.
        columns: Those of predictions that are written.

    Returns:
        Column of the input → its name in the table of predictions.

    Example:
        name_kept(["text", "label"], ["label", "p(x)"])  # {"text": "text", "label": "given label"}
    """
    given, names = list(given), dict[str, str]()
    for name in given:
        free = name
        while free in columns or free in names.values() or (free != name and free in given):
            free = f"given {free}"
        names[name] = free
    return names


def choose_top(task: Task, top: int) -> None:
    """Have a task predict only its best labels; refused where it predicts no labels."""
    if not hasattr(task, "top"):
        problem = f"is for labels, and the run is of the task {task.name}"
        raise ArgumentError.of("top", top, problem, "Leave it out")
    task.top = top


def check_finite(rows: list[PredictedRow]) -> list[PredictedRow]:
    """The rows; refused where a prediction is not finite, as those of a model that has diverged are."""
    check_records(row.predicted for row in rows)
    return rows


def check_records(records: Iterable[dict[str, Any]], first: int = 1) -> None:
    """Refuse records of predictions, the first of which has this number, where one is not finite."""
    for number, record in enumerate(records, first):
        for name, value in record.items():
            entries = value if isinstance(value, list | tuple) else [value]
            if any(isinstance(entry, float) and not math.isfinite(entry) for entry in entries):
                raise DivergenceError(f"prediction {number} has a `{name}` that is not finite")


def as_json(records: Iterable[dict[str, Any]]) -> str:
    """One object per line."""
    return "".join(json.dumps(finite(record), ensure_ascii=False, default=str) + "\n" for record in records)


def as_csv(
    records: Iterable[dict[str, Any]], columns: Sequence[str], kept: Sequence[str] = (), header: bool = True
) -> str:
    """A table; the entries of a list are in one cell, separated by spaces.

    Args:
        records: The rows.
        columns: Those of predictions, whose numbers have six digits.
        kept: Those of the input, which come first and are written as they are.
        header: Whether the names of the columns are the first line.
    """
    text = io.StringIO()
    writer = csv.DictWriter(text, [*kept, *columns], lineterminator="\n")
    if header:
        writer.writeheader()
    for record in records:
        writer.writerow({name: value if name in kept else _cell(value) for name, value in record.items()})
    return text.getvalue()


def _cell(value: Any) -> Any:
    if isinstance(value, float):
        return f"{value:.6g}"
    return " ".join(str(_cell(one)) for one in value) if isinstance(value, list | tuple) else value
