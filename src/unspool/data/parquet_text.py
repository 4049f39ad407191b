"""Text in Parquet: the column of texts of a file, some rows at a time, so that large shards need little memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from unspool.errors import DataError, MissingPackageError

SUFFIX = ".parquet"
#: The names of columns of text that count where there are several; the first that is there.
NAMES = ("text", "content", "document", "body")
#: Rows that are read at a time.
ROWS = 4096


def read_parquet_text(file: Path) -> Iterator[str]:
    """The texts of a Parquet file, each with a line end after it; rows without one are left out.

    They are in the only column of text, or in the one called `text`, `content`, `document` or `body`.

    Args:
        file: The file.

    Returns:
        Pieces of text.

    Raises:
        DataError: It cannot be read, or has no such column, or several.

    Example:
        "".join(read_parquet_text(Path("shard-00000.parquet")))
    """
    with MissingPackageError.explaining(f"reading {file}"):
        import polars as pl
    try:
        column = _choose(file, pl.read_parquet_schema(file), pl.String)
        texts = pl.scan_parquet(file, glob=False).select(column)
        first = 0
        while len(rows := texts.slice(first, ROWS).collect()):
            entries = [text for text in rows[column].to_list() if text]
            yield "".join(text if text.endswith("\n") else f"{text}\n" for text in entries)
            first += ROWS
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError) as error:
        raise DataError(f"{file} cannot be read as Parquet: {error}. Get the whole file, or write it anew.") from error


def _choose(file: Path, schema: Mapping[str, Any], text: Any) -> str:
    """The column of texts."""
    columns = [name for name, kind in schema.items() if kind == text]
    named = [name for name in NAMES if name in columns]
    found = next(iter(named or columns), None) if named or len(columns) == 1 else None
    if found is None:
        there = ", ".join(columns) or "none"
        raise DataError(
            f"{file} does not tell which column has the text: of text are {there}. Call one of them {NAMES[0]!r}."
        )
    return found
