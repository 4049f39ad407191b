"""Formats: which one a file or a folder has, by its name and its content. This is the one place that decides."""

from __future__ import annotations

import json
from collections.abc import Mapping
from itertools import islice
from pathlib import Path
from typing import Literal

import numpy as np

from unspool.data.arrays import is_series_file
from unspool.data.chunks import Chunk, Columns
from unspool.data.delimited import DELIMITED, read_delimited
from unspool.data.labelled_lines import find_form, read_labelled_lines
from unspool.data.layouts import Layout, find_layout, read_layout
from unspool.data.records import is_json, is_json_records, read_json, read_json_lines
from unspool.data.text import LINES, read_lines
from unspool.errors import ArgumentError, DataError

Format = Literal["delimited", "json lines", "json", "parquet", "labelled lines", "arrays", "text"] | Layout

#: Suffix → format, of those whose name is enough.
BY_SUFFIX: Mapping[str, Format] = {
    **dict.fromkeys(DELIMITED, "delimited"),
    ".jsonl": "json lines",
    ".ndjson": "json lines",
    ".json": "json",
    ".parquet": "parquet",
    ".npz": "arrays",
}
#: Formats without columns.
COLUMNLESS = ("arrays", "text")
#: Formats whose rows are counted, as they have no lines.
COUNTED = (".parquet", ".json")
#: The first bytes of Parquet.
PARQUET = b"PAR1"
#: The first bytes of .npy, which holds one array.
ARRAY = b"\x93NUMPY"
#: Suffix → language of files that hold data in ways that are not known; as plain text they would be learned letter by
#: letter.
MARKUP = {".xml": "XML", ".yaml": "YAML", ".yml": "YAML"}
TABLES = "CSV, TSV, JSON, JSON lines, Parquet, lines that start with their label (also fastText's __label__)"
FOLDERS = "folders with one file or one subfolder per class or with seq.in, seq.out and label"
KNOWN = f"{TABLES}, CoNLL (a word and its tag per line), .ts, .npz, plain text, and {FOLDERS}"


def find_format(path: Path) -> Format:
    """The format of a file or a folder.

    Args:
        path: A file, or a folder.

    Returns:
        The format; "text" where it is none of the others.

    Raises:
        DataError: The file is neither text nor a known format, or a folder is no data set.

    Example:
        find_format(Path("intents.csv"))  # "delimited"
    """
    layout = find_layout(path)
    if layout is not None:
        return layout
    if path.is_dir():
        raise DataError(f"{path} is a folder that is no data set. Known formats: {KNOWN}.")
    return BY_SUFFIX.get(path.suffix.lower()) or _find_by_content(path)


def _find_by_content(file: Path) -> Format:
    if file.suffix.lower() in MARKUP:
        raise DataError(_refuse_markup(file, MARKUP[file.suffix.lower()]))
    with file.open("rb") as stream:
        start = stream.read(max(len(PARQUET), len(ARRAY)))
    if start.startswith(PARQUET):
        return "parquet"
    if start.startswith(ARRAY):
        raise DataError(
            f"{file} is one array of NumPy, and has no targets. Write sequences and targets to an .npz file: "
            "numpy.savez(file, X=…, y=…)."
        )
    return "arrays" if is_series_file(file) else _find_by_lines(file)


def _find_by_lines(file: Path) -> Format:
    """The format of a text, by its first lines."""
    try:
        lines = list(islice(read_lines(file), LINES))
    except DataError as error:
        raise DataError(f"{error} Known formats: {KNOWN}.") from error
    first = next((line.strip() for line in lines if line.strip()), "")
    if first.startswith("<?xml"):
        raise DataError(_refuse_markup(file, "XML"))
    if first[:1] in ("{", "[") and (found := _find_json(file, first)) is not None:
        return found
    return "text" if find_form(lines) is None else "labelled lines"


def _find_json(file: Path, first: str) -> Format | None:
    """The format of a text that may be JSON, by its first line and its whole; None if it is not."""
    if _is_record(first):
        return "json lines"
    if not is_json(file):
        return None
    if not is_json_records(file):
        raise DataError(_refuse_markup(file, "JSON"))
    return "json"


def _refuse_markup(file: Path, language: str) -> str:
    return (
        f"{file} is {language} that is not known as data. Known formats: {KNOWN}. To learn to write such files, give "
        "`task='lm'`."
    )


def _is_record(line: str) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except (ValueError, RecursionError):
        return False


def has_columns(path: Path) -> bool:
    """Whether a file or a folder is read as a table."""
    return find_format(path) not in COLUMNLESS


def read_chunk(path: Path, header: bool | None = None, split: str = "", tolerant: bool = False) -> Chunk:
    """Read the columns of a file or a folder, by its format.

    Args:
        path: The file or the folder.
        header: Whether the first line has the names of the columns, for CSV and TSV; None: it must.
        split: Which of several splits that a JSON file has; "" for all.
        tolerant: Rows of CSV, TSV and JSON lines that cannot be read have missing entries and are noted, not refused.
    """
    kind = find_format(path)
    if header is not None and kind != "delimited":
        raise ArgumentError.of("header", header, f"has no effect on {path}", "Leave it out; it is for CSV and TSV")
    if kind in ("slots", "class files", "class folders"):
        return read_layout(path, kind)
    bad: dict[int, str] | None = {} if tolerant else None
    return Chunk(*_read_columns(path, kind, header, split, bad), (path,), bad=bad or {})


def _read_columns(path: Path, kind: Format, header: bool | None, split: str, bad: dict[int, str] | None) -> Columns:
    if kind == "delimited":
        return read_delimited(path, header, bad)
    if kind == "json lines":
        return read_json_lines(path, bad)
    if kind == "json":
        return read_json(path, split)
    return _read_parquet(path) if kind == "parquet" else _read_labelled(path, kind)


def _read_labelled(path: Path, kind: Format) -> Columns:
    """Labelled lines: where a table is needed, even few are enough to see what they are."""
    form = None if kind == "arrays" else find_form(list(islice(read_lines(path), LINES)), certain=True)
    if form is None:
        what = "holds arrays" if kind == "arrays" else "is text without columns and labels"
        raise DataError(f"{path} {what}, and a table is needed. Known formats: {TABLES}, and {FOLDERS}.")
    return read_labelled_lines(path, form)


def _read_parquet(file: Path) -> Columns:
    import polars as pl

    try:
        frame = pl.read_parquet(file, glob=False)
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError) as error:
        raise DataError(f"{file} cannot be read as Parquet: {error}. Get the whole file, or write it anew.") from error
    return frame, np.arange(1, len(frame) + 1)
