"""The task that a file is for: by its ending, its columns and what stands in them; the user hears why."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from unspool.data.labelled import LABEL_NAMES, TEXT_NAMES
from unspool.data.tables import Table, read_table
from unspool.data.tagged import guess_scheme
from unspool.data.text import Source, find_files
from unspool.errors import DataError

TAGGED = (".conll", ".conll03", ".bio", ".iob", ".iob2", ".bioes")
TABLES = (".csv", ".tsv", ".jsonl", ".ndjson", ".parquet")
TIME_NAMES = ("time", "date", "datetime", "timestamp", "ds", "month", "year", "day", "week", "hour")
PAIR_NAMES = ({"source", "target"}, {"src", "tgt"}, {"input", "output"})
#: Options that only one task has.
TELLING = {
    "label_column": "classify",
    "horizon": "forecast",
    "look_back": "forecast",
    "scheme": "tag",
    "crf": "tag",
    "source_column": "seq2seq",
    "target_column": "seq2seq",
    "enumerate": "regress",
}
#: Labels that are numbers are measurements rather than names from so many different ones on.
MEASURED = 30
#: Lines that are looked at.
LOOKED_AT = 200


class Guess(NamedTuple):
    """A task's name, and why; empty where nothing was looked at."""

    task: str
    why: str


def guess_task(source: Source | None, options: Mapping[str, Any]) -> Guess:
    """What is to be learned from files; text without columns is for a language model."""
    for name, task in TELLING.items():
        if name in options:
            return Guess(task, f"only it has `{name}`")
    if source is None:
        return Guess("lm", "nothing says otherwise")
    try:
        file = find_files(source)[0]
    except DataError:  # it is said when the data is read, after all that is wrong with the settings
        return Guess("lm", "")
    suffix = file.suffix.lower()
    if suffix in TAGGED:
        return Guess("tag", f"{file.name} ends in {suffix}")
    if suffix in TABLES:
        return _guess_table(file, options)
    if _is_tagged(file):
        return Guess("tag", f"{file.name} has a word and a tag on each line")
    return Guess("lm", f"{file.name} is text without columns")


def _guess_table(file: Path, options: Mapping[str, Any]) -> Guess:
    try:
        table = read_table(file)
    except DataError:
        if file.suffix.lower() != ".tsv":
            raise
        table = read_table(file, header=False)
    columns = {column.lower(): column for column in table.columns}
    if "targets" in options:
        timed = "time_column" in options and "id_column" not in options
        return Guess("forecast" if timed else "regress", f"{options['targets']} are to be foretold")
    label = next((columns[name] for name in LABEL_NAMES if name in columns), None)
    text = next((columns[name] for name in TEXT_NAMES if name in columns), None)
    time = next((columns[name] for name in TIME_NAMES if name in columns), None)
    if set(columns) in PAIR_NAMES or (len(columns) == 2 and file.suffix.lower() == ".tsv" and label is None):
        return Guess("seq2seq", f"{file.name} has pairs of texts")
    if time is not None and text is None and label is None:
        return Guess("forecast", f"`{time}` of {file.name} says when")
    if label is not None and (text is not None or "id_column" in options or len(columns) == 2):
        if _is_measured(table, label):
            return Guess("regress", f"`{label}` of {file.name} holds numbers")
        return Guess("classify", f"`{label}` of {file.name} holds labels")
    if text is not None:
        return Guess("regress", f"{file.name} has `{text}` and no labels")
    raise DataError(
        f"{file} has the columns {', '.join(map(repr, table.columns))}: what is to be learned is not clear. Say it: "
        "--task classify --label-column NAME, --task regress --target NAME or --task forecast --time-column NAME."
    )


def _is_measured(table: Table, column: str) -> bool:
    try:
        values = table.numbers(column)
    except DataError:
        return False
    return len(set(values.tolist())) >= MEASURED or any(value != int(value) for value in values)


def _is_tagged(file: Path) -> bool:
    """Whether nearly every line is a word and a tag, such as B-place, I-place or O."""
    with file.open(encoding="utf-8", errors="replace") as lines:
        rows = [line.split() for line in islice(lines, LOOKED_AT)]
    filled = [row for row in rows if row]
    if len(filled) < 2 or any(len(row) != len(filled[0]) for row in filled) or len(filled[0]) < 2:
        return False
    return guess_scheme([row[-1] for row in filled]) in ("bio", "bioes")
