"""Glance: a first look at a file, by which tasks recognize their data: its name, its columns or its first lines."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any

from unspool.data.columns import find_column
from unspool.data.formats import SUFFIXES
from unspool.data.roles import Roles
from unspool.data.tables import Table, read_table
from unspool.errors import DataError

#: Lines of a text that are looked at.
LINES = 200
#: Numbers of which at least this many are different are measurements rather than labels.
MEASURED = 30


class Glance:
    """A file and the settings that are given for it. What is costly is read once, when a task asks for it.

    Example:
        glance = Glance(Path("sales.csv"), {"horizon": 12})
        glance.is_table, glance.find(TIME_NAMES)
    """

    def __init__(self, file: Path, settings: Mapping[str, Any]) -> None:
        self.file, self.settings = file, settings

    @property
    def name(self) -> str:
        """The name of the file."""
        return self.file.name

    @property
    def suffix(self) -> str:
        """The end of its name, in lower case: ".csv"."""
        return self.file.suffix.lower()

    @property
    def is_table(self) -> bool:
        """Whether it is a table, by its suffix."""
        return self.suffix in SUFFIXES

    @cached_property
    def table(self) -> Table:
        """The table; TSV may have no header."""
        try:
            return read_table(self.file)
        except DataError:
            if self.suffix != ".tsv":
                raise
            return read_table(self.file, header=False)

    @cached_property
    def roles(self) -> Roles:
        """What the columns of the table are for."""
        return Roles(self.table)

    @property
    def columns(self) -> list[str]:
        """The columns of the table; none where it is not one."""
        return self.table.columns if self.is_table else []

    def find(self, names: tuple[str, ...]) -> str | None:
        """The column with one of these names; None if there is none."""
        return find_column(self.columns, names)

    def is_measured(self, column: str) -> bool:
        """Whether a column holds measurements: numbers with decimals, or of many different values."""
        try:
            values = self.table.numbers(column)
        except DataError:
            return False
        return len(set(values.tolist())) >= MEASURED or any(value != int(value) for value in values)

    def is_graded(self, column: str) -> bool:
        """Whether a column holds numbers that may be more than two labels: measurements, or grades."""
        return self.roles.kinds[column] == "number" and self.table.frame[column].n_unique() > 2

    @cached_property
    def lines(self) -> list[str]:
        """The first lines of a text."""
        with self.file.open(encoding="utf-8", errors="replace") as stream:
            return list(islice(stream, LINES))
