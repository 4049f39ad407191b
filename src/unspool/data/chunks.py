"""Chunks: what one file, or one folder, gives to a table."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from unspool.data.text import read_pieces
from unspool.errors import DataError

if TYPE_CHECKING:
    import polars as pl

Lines = NDArray[np.int64]
#: The columns of a file, and the line of every row; rows are counted where a format has no lines.
Columns = tuple["pl.DataFrame", Lines]


class Chunk(NamedTuple):
    """Rows of a table, and the files that they are from."""

    frame: pl.DataFrame
    lines: Lines
    files: tuple[Path, ...]
    firsts: tuple[int, ...] = (0,)  # the first row of each file
    bad: Mapping[int, str] = MappingProxyType({})  # row that cannot be read → problem


def make_columns(columns: dict[str, list[str | None]], lines: list[int]) -> Columns:
    """Columns of text."""
    import polars as pl

    frame = pl.DataFrame([pl.Series(name, entries, pl.String) for name, entries in columns.items()])
    return frame, np.array(lines, np.int64)


def read_whole(file: Path) -> str:
    """All of a file, with "\\n" at the end of lines; an empty one is refused."""
    text = "".join(read_pieces([file]))
    if not text.strip():
        raise DataError(f"{file} is empty. Give a table with data.")
    return text
