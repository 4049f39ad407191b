"""Tables: files and folders of all formats that have columns; every row knows its file and line."""

from __future__ import annotations

import difflib
import json
import reprlib
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from unspool.data.chunks import Chunk
from unspool.data.decimals import read_decimals
from unspool.data.formats import COUNTED, read_chunk
from unspool.data.problems import Problems
from unspool.data.sources import find_items
from unspool.data.text import Source
from unspool.data.times import Times, read_times
from unspool.errors import DataError

if TYPE_CHECKING:
    import polars as pl

#: How a missing number is written, in lower case; a missing text is empty.
MISSING = ("", "nan", "na", "n/a", "null", "none", "?")

#: What to do where a column is not there.
COLUMN_REMEDY = "Rename one, or give the setting that names the column, such as `text_column`"


@dataclass(frozen=True)
class Table:
    """Rows of one or several files. Entries are text, except those of Parquet, until a column is read.

    Example:
        table = read_table("sales.csv")
        table.columns, table.numbers("price"), table.text("name"), table.times("date")
    """

    frame: pl.DataFrame
    files: tuple[Path, ...]
    firsts: tuple[int, ...]  # the first row of each file
    lines: NDArray[np.int64]  # of each row, in its file; rows are counted where a format has no lines
    tolerant: bool = False  # entries that cannot be read are missing, as NaN or "", and not refused
    bad: Mapping[int, str] = field(default_factory=dict)  # row that could not be read → problem

    def __len__(self) -> int:
        return len(self.frame)

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        return self.frame.columns

    def place(self, row: int) -> str:
        """The file and line of a row."""
        file = self.files[bisect_right(self.firsts, row) - 1]
        return f"{file}, {'row' if file.suffix.lower() in COUNTED else 'line'} {self.lines[row]}"

    def numbers(self, column: str, *, empty: bool = False) -> NDArray[np.float64]:
        """A column of finite numbers; with `empty`, NaN where an entry is missing."""
        import polars as pl

        entries = self._find(column)
        if entries.dtype == pl.String:
            text = entries.str.strip_chars().str.to_lowercase()
            missing = text.is_null() | text.is_in(MISSING)
            found = _cast(
                text.replace({"true": "1", "false": "0"}).zip_with(~missing, pl.Series([None], dtype=pl.String))
            )
        elif entries.dtype.is_numeric() or entries.dtype in (pl.Boolean, pl.Null):
            found = entries.cast(pl.Float64)
            missing = found.is_null() | found.is_nan()
        else:
            raise DataError(f"{self.files[0]}: `{column}` holds {entries.dtype}, not numbers. Choose another column.")
        wrong = (~missing & (found.is_null() | found.is_infinite())).to_numpy()
        if not self.tolerant:
            Problems(
                f"{self.place(int(row))}: `{column}` is {reprlib.repr(entries[int(row)])}, not a finite number. "
                f"Correct it (decimals have a point, thousands nothing between them){', or leave it empty' * empty}."
                for row in np.flatnonzero(wrong)
            ).refuse()
        if not empty:
            self._refuse(column, missing)
        return found.fill_null(np.nan).to_numpy().astype(np.float64)

    def text(self, column: str, *, empty: bool = False) -> list[str]:
        """A column of text; with `empty`, entries may be empty."""
        entries = self._find(column)
        text = self._as_text(column, _dump_lists(entries))
        if not empty:
            self._refuse(column, text.is_null() | (text.str.strip_chars() == ""))
        found = text.fill_null("").to_list()
        return [entry if entry.strip() else "" for entry in found] if self.tolerant else found

    def _as_text(self, column: str, entries: pl.Series) -> pl.Series:
        import polars as pl

        try:
            return entries.cast(pl.String)
        except pl.exceptions.PolarsError as error:
            raise DataError(
                f"{self.files[0]}: `{column}` holds {entries.dtype}, not text. Choose another column."
            ) from error

    def times(self, column: str) -> Times:
        """A column of stamps: dates, date-times, months, years or numbers."""
        import polars as pl

        entries = self._find(column)
        if entries.dtype in (pl.Date, pl.Datetime):
            self._refuse(column, entries.is_null())
            moments = entries.cast(pl.Datetime("us", getattr(entries.dtype, "time_zone", None))).to_physical()
            zone = "Z" if getattr(entries.dtype, "time_zone", None) else ""
            form = "%Y-%m-%d" if entries.dtype == pl.Date else f"%Y-%m-%dT%H:%M:%S{zone}"
            return Times(moments.to_numpy().astype(np.int64), form)
        try:
            return read_times([entry.strip() for entry in self.text(column)], self.place)
        except DataError as error:
            raise DataError(f"`{column}` cannot be read as times. {error}") from error

    def _find(self, column: str) -> pl.Series:
        require_columns(self.columns, [column], self.files[0])
        return self.frame[column]

    def _refuse(self, column: str, missing: pl.Series) -> None:
        if self.tolerant:
            return
        problems = Problems()
        for row in np.flatnonzero(missing.to_numpy()):
            entry = self.frame[column][int(row)]
            written = isinstance(entry, str) and bool(entry.strip())
            what = f"{entry.strip()!r}, which stands for a missing number" if written else "empty"
            problems.add(f"{self.place(int(row))}: `{column}` is {what}. Fill it in, or leave the row out.")
        problems.refuse()


def _dump_lists(entries: pl.Series) -> pl.Series:
    """A column of lists as JSON writes them; any other as it is."""
    import polars as pl

    if not isinstance(entries.dtype, pl.List):
        return entries
    lists = entries.fill_null([]).to_list()
    return pl.Series(entries.name, [json.dumps(one, ensure_ascii=False) for one in lists], pl.String)


def _cast(text: pl.Series) -> pl.Series:
    """Entries as numbers; null where they are none."""
    import polars as pl

    found = text.cast(pl.Float64, strict=False)
    if found.null_count() == text.null_count():
        return found
    written = read_decimals(text.drop_nulls())
    if written is None:
        return found
    places = text.is_not_null().arg_true()
    return pl.Series(text.name, [None] * len(text), pl.Float64).scatter(places, written.cast(pl.Float64))


def read_table(
    files: Source, *, columns: Sequence[str] | None = None, header: bool | None = None, tolerant: bool = False
) -> Table:
    """Read tables: CSV, TSV, JSON, JSON lines, Parquet, labelled lines and folders of labelled texts.

    CSV may have semicolons in place of commas; in TSV quotation marks are characters like any other. Where a format has
    no names of columns, these are `text` and `label`.

    Args:
        files: Files, folders and patterns; the rows of several files are joined.
        columns: The columns to keep; None: all.
        header: Whether the first line of CSV and TSV has the names of the columns. It must be given where that line
            has a number in it. Without a header, columns are called "1", "2" and so on, as are those with an empty
            name.
        tolerant: Rows and entries that cannot be read are missing, and not refused; `bad` of the table lists such rows.

    Returns:
        The table.

    Raises:
        DataError: A file cannot be read; the message has its line.
    """
    chunks: list[Chunk] = []
    for path, split in find_items(files):
        chunk = read_chunk(path, header, split, tolerant)
        if not len(chunk.frame):
            raise DataError(f"{path} has no rows below its header. Give a table with data.")
        known = chunk.frame.columns
        frame = chunk.frame.select(require_columns(known, known if columns is None else columns, path))
        if chunks:
            frame = _fit_columns(frame, path, chunks[0])
        chunks.append(chunk._replace(frame=frame))
    return _join(chunks, tolerant)


def _fit_columns(frame: pl.DataFrame, path: Path, first: Chunk) -> pl.DataFrame:
    """A frame with the columns in the order of the first file's."""
    if set(frame.columns) != set(first.frame.columns):
        odd = ", ".join(sorted({*frame.columns} ^ {*first.frame.columns}))
        raise DataError(f"{path} and {first.files[0]} do not have the same columns: only one has {odd}. Split them.")
    return frame.select(first.frame.columns)


def _join(chunks: Sequence[Chunk], tolerant: bool) -> Table:
    joined = _concatenate(chunks)
    begins = list(accumulate((len(chunk.frame) for chunk in chunks[:-1]), initial=0))
    pairs = list(zip(begins, chunks, strict=True))
    firsts = [begin + first for begin, chunk in pairs for first in chunk.firsts]
    bad = {begin + row: why for begin, chunk in pairs for row, why in chunk.bad.items()}
    files = tuple(file for chunk in chunks for file in chunk.files)
    return Table(joined, files, tuple(firsts), np.concatenate([chunk.lines for chunk in chunks]), tolerant, bad)


def _concatenate(chunks: Sequence[Chunk]) -> pl.DataFrame:
    import polars as pl

    try:
        return pl.concat([chunk.frame for chunk in chunks], how="vertical_relaxed")
    except pl.exceptions.PolarsError as error:
        first = chunks[0].files[0]
        raise DataError(f"the columns of {first} and the others differ in type: {error}. Convert them.") from error


def group_rows(names: Sequence[str]) -> list[NDArray[np.intp]]:
    """The rows of each name, names in the order of their first rows.

    Example:
        group_rows(["b", "a", "b"])  # [[0, 2], [1]]
    """
    places: dict[str, int] = {}
    numbers = np.array([places.setdefault(name, len(places)) for name in names])
    order = np.argsort(numbers, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(numbers[order])) + 1)


def require_columns(known: Sequence[str], columns: Sequence[str], file: Path) -> list[str]:
    """The columns, if all are known; otherwise a DataError that suggests one."""
    for column in columns:
        if column not in known:
            small = {name.lower(): name for name in known}
            nearest = difflib.get_close_matches(column.lower(), small, n=1, cutoff=0.5)
            hint = f"Did you mean {small[nearest[0]]!r}? " if nearest else ""
            there = ", ".join(known[:30]) + ("…" if len(known) > 30 else "")
            raise DataError(f"{file} has no column {column!r}. {hint}It has: {there}. {COLUMN_REMEDY}.")
    return list(dict.fromkeys(columns))
