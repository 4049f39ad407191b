"""CSV and TSV files as columns, and the line of every row."""

from __future__ import annotations

import contextlib
import csv
import io
from collections.abc import Iterable, Iterator, Sequence
from itertools import compress, islice, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from unspool.data.chunks import Columns, Lines, read_whole
from unspool.data.problems import Problems
from unspool.data.text import LINES, read_lines
from unspool.errors import DataError

if TYPE_CHECKING:
    import polars as pl

#: Rows that are turned into columns at a time: fewer lists than trigger a garbage collection of all objects, which
#: would take four times as long as the reading.
CHUNK = 500
#: Numbers one after the other in a first line that are the names of columns.
FEWEST_STEPS = 8
#: Suffixes of tables whose columns are separated by a character.
DELIMITED = (".csv", ".tsv")


def read_delimited(file: Path, header: bool | None, bad: dict[int, str] | None = None) -> Columns:
    """The columns of a CSV or TSV file.

    Args:
        file: The file. CSV may have semicolons for commas; in TSV quotation marks are characters like any other.
        header: Whether the first line has the names of the columns; None: it must.
        bad: Takes the rows that cannot be read, whose entries are then missing: row → problem. None: they are refused.
            An empty line of a table with one column is then a row too.
    """
    text = read_whole(file)
    delimiter = _find_delimiter(file.suffix, text)
    keep_empty = bad is not None and not text.startswith("\n") and delimiter not in text.partition("\n")[0]
    text = text.rstrip("\n") if keep_empty else text
    found: dict[int, str] = {}
    limit = csv.field_size_limit(2**31 - 1)  # an entry may be a whole document
    try:
        columns = _read_rows(file, _make_reader(text, delimiter), delimiter, header, found, keep_empty)
    except csv.Error as error:
        if bad is None:
            raise _unreadable(file, error, _make_reader(text, delimiter)) from error
        found.clear()
        columns = _read_rows(file, LineReader(text, delimiter), delimiter, header, found, keep_empty)
    finally:
        csv.field_size_limit(limit)
    if bad is None:
        Problems(found.values()).refuse()
    else:
        bad |= found
    return columns


def _unreadable(file: Path, error: csv.Error, reader: Any) -> DataError:
    line = _line_of_error(reader)
    return DataError(f"{file}, line {line}: {error}. Close every quotation mark, and double those within an entry.")


def find_suffix(file: Path, columns: Sequence[str], usual: str = "") -> str:
    """The suffix of a table in a file that has none: which of CSV and TSV has one of these columns in its first line.

    Where a column is a number, there is no header. Then it is TSV if all lines have as many tabs. It is CSV only where
    such tables usually are, as commas are also found in texts, and if all lines have as many entries.

    Args:
        file: A text.
        columns: Columns that are read from such tables.
        usual: The suffix of other such tables, such as those of training; "" if it is not known.

    Returns:
        ".csv" or ".tsv"; "" where it is neither.

    Example:
        find_suffix(Path("stdin"), ["text"])  # ".csv", of a file that starts with text;label
    """
    lines = [line.rstrip("\n") for line in islice(read_lines(file), LINES) if line.strip()]
    for suffix in DELIMITED:
        if {*columns} & {*_first_entries(lines, suffix)}:
            return suffix
    if not any(column.isdigit() for column in columns):
        return ""
    if _have_same_tabs(lines):
        return ".tsv"
    return ".csv" if usual == ".csv" and _are_rows(lines) else ""


def _have_same_tabs(lines: Iterable[str]) -> bool:
    tabs = {line.count("\t") for line in lines}
    return len(tabs) == 1 and tabs != {0}


def _are_rows(lines: Sequence[str]) -> bool:
    """Whether lines are rows of CSV, with as many entries in each; a single one must have quotation marks somewhere."""
    text = "\n".join(lines)
    try:
        rows = list(_make_reader(text, _find_delimiter(".csv", text)))
    except csv.Error:
        return False
    counts = {len(row) for row in rows}
    return len(counts) == 1 and (counts != {1} or [row[0] for row in rows] != [*lines])


def _first_entries(lines: Sequence[str], suffix: str) -> list[str]:
    """The entries of the first line, if it is one of a table with this suffix."""
    first = "".join(lines[:1])
    try:
        return [name.strip() for name in next(_make_reader(first, _find_delimiter(suffix, first)), [])]
    except csv.Error:
        return []


def _read_rows(
    file: Path, reader: Any, delimiter: str, header: bool | None, bad: dict[int, str], keep_empty: bool
) -> Columns:
    import polars as pl

    frames: list[pl.DataFrame] = []
    lines: list[Lines] = []
    names: list[str] = []
    count = 0
    for rows, numbers in _read_chunks(reader, keep_empty):
        if not names:
            names = _names(file, rows[0], header, int(numbers[0]))
            if header is not False:
                rows, numbers = rows[1:], numbers[1:]
        bad |= _find_ragged(file, rows, numbers, names, delimiter, count)
        if rows:
            frames.append(_make_frame(rows, names))
            lines.append(numbers)
        count += len(rows)
    if not frames:
        return pl.DataFrame(schema=dict.fromkeys(names, pl.String)), np.empty(0, np.int64)
    return pl.concat(frames, rechunk=True), np.concatenate(lines)


def _find_ragged(
    file: Path, rows: Sequence[Sequence[str]], numbers: Lines, names: Sequence[str], delimiter: str, before: int
) -> dict[int, str]:
    """Rows with too few or too many entries, and what is wrong with each; so many rows come before these."""
    return {
        before + place: f"{file}, line {numbers[place]}: {_ragged(row, names, delimiter)}"
        for place, row in enumerate(rows)
        if len(row) != len(names)
    }


def _make_frame(rows: Sequence[Sequence[str]], names: Sequence[str]) -> pl.DataFrame:
    """Rows as columns of text; of a row with too few or too many entries, all are missing."""
    import polars as pl

    whole = [row if len(row) == len(names) else [None] * len(names) for row in rows]
    columns = zip(names, zip(*whole, strict=True), strict=True)
    return pl.DataFrame([pl.Series(name, column, pl.String) for name, column in columns])


class LineReader:
    """Rows of a table with broken quotation marks: each line is a row, and one that cannot be read is one entry."""

    def __init__(self, text: str, delimiter: str) -> None:
        self._lines, self._delimiter, self.line_num = iter(text.split("\n")), delimiter, 0

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> list[str]:
        line = next(self._lines)
        self.line_num += 1
        try:
            return next(_make_reader(line, self._delimiter), [])
        except csv.Error:
            return [line]


def _find_delimiter(suffix: str, text: str) -> str:
    if suffix.lower() == ".tsv":
        return "\t"
    first = text.lstrip("\n").partition("\n")[0]
    return ";" if ";" in first and "," not in first else ","


def _make_reader(text: str, delimiter: str) -> Any:
    lines = io.StringIO(text, newline="\n")
    if delimiter == "\t":  # quotation marks are characters like any other
        return csv.reader(lines, delimiter=delimiter, strict=True, quoting=csv.QUOTE_NONE)
    return csv.reader(lines, delimiter=delimiter, strict=True)


def _read_chunks(reader: Any, keep_empty: bool) -> Iterator[tuple[list[list[str]], Lines]]:
    """Some rows at a time, and the line on which each starts; an empty line is left out, or is an empty entry."""
    begin = 1  # the line of the next row
    while rows := list(islice(reader, CHUNK)):
        numbers = _number_rows(rows, begin, reader.line_num)
        begin = reader.line_num + 1
        if keep_empty:
            rows = [row or [""] for row in rows]
        filled = [bool(row) for row in rows]
        if any(filled):
            yield list(compress(rows, filled)), numbers[filled]


def _number_rows(rows: Sequence[Sequence[str]], begin: int, end: int) -> Lines:
    """The line on which each of the rows from line `begin` to `end` starts."""
    if end - begin + 1 == len(rows):
        return np.arange(begin, begin + len(rows))
    heights = [1 + sum(entry.count("\n") for entry in row) for row in rows]  # some entries have several lines
    return begin + np.cumsum([0, *heights[:-1]])


def _line_of_error(reader: Any) -> int:
    """Where the row starts that cannot be read: all rows once more, one at a time."""
    begin = 1
    with contextlib.suppress(csv.Error):
        for _ in reader:
            begin = reader.line_num + 1
    return begin


def _names(file: Path, first: list[str], header: bool | None, line: int) -> list[str]:
    if header is False:
        return [str(place) for place in range(1, len(first) + 1)]
    if header is None:
        _refuse_numbers(file, first, line)
    names = [name.strip() or str(place) for place, name in enumerate(first, 1)]
    _refuse_twice(file, names, line)
    return names


def _refuse_twice(file: Path, names: Sequence[str], line: int) -> None:
    twice = [name for place, name in enumerate(names) if name in names[:place]]
    if twice:
        raise DataError(f"{file}, line {line}: two columns are called {twice[0]!r}. Rename one of them.")


def _refuse_numbers(file: Path, first: list[str], line: int) -> None:
    """Refuse a first line with a number in it, unless it is said to be a header, or counts steps beside a name."""
    if _counts_steps(first):
        return
    for name in first:
        if _is_number(name):
            raise DataError(
                f"{file}, line {line}: {name!r} may be data or a column's name. "
                "Write a line with the names of the columns above it, such as a,b; or, in Python, give header=True or "
                "False."
            )


def _counts_steps(first: Sequence[str]) -> bool:
    """Whether a line has names, and then whole numbers one after the other, as 1960, 1961, … above steps."""
    numbers = [name.strip() for name in first if _is_number(name)]
    names = [name for name in first if name.strip() and not _is_number(name)]
    if not names or len(numbers) < FEWEST_STEPS or not all(number.isdigit() for number in numbers):
        return False
    return all(int(after) == int(before) + 1 for before, after in pairwise(numbers))


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return text.strip().lower() not in ("nan", "inf", "infinity")


def _ragged(row: Sequence[str], names: Sequence[str], delimiter: str) -> str:
    return (
        f"{len(row)} entries, where the first line has {len(names)}. "
        f"Complete the line; an entry with {delimiter!r} in it needs quotation marks around it."
    )
