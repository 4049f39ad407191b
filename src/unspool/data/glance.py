"""Glance: a first look at a file, by which tasks recognize their data: its name, its columns or its first lines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any

from unspool.data.arrays import Arrays, read_arrays
from unspool.data.columns import find_column
from unspool.data.formats import find_format, has_columns
from unspool.data.layouts import LABELS, TAGS, looks_labelled
from unspool.data.roles import Roles
from unspool.data.sources import Item, find_items, training_part
from unspool.data.tables import Table, read_table
from unspool.data.text import LINES, read_lines
from unspool.errors import DataError

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

    @cached_property
    def is_table(self) -> bool:
        """Whether it is read as a table, by its name and content; a folder of books is not."""
        if self.item.path.is_dir():
            return looks_labelled(self.item.path)
        return has_columns(self.item.path)

    @cached_property
    def item(self) -> Item:
        """What is looked at: of data that comes divided, the training part."""
        return find_items(training_part(self.file))[0]

    @property
    def has_tagged_folder(self) -> bool:
        """Whether it is a folder with seq.in and seq.out."""
        return (self.item.path / TAGS).is_file()

    @property
    def has_joint_folder(self) -> bool:
        """Whether it is a folder with seq.in, seq.out and label."""
        return self.has_tagged_folder and (self.item.path / LABELS).is_file()

    @cached_property
    def arrays(self) -> Arrays | None:
        """Sequences of numbers and their targets, where the file holds arrays."""
        if self.item.path.is_dir() or find_format(self.item.path) != "arrays":
            return None
        return read_arrays(*self.item)

    @cached_property
    def table(self) -> Table:
        """The table; TSV may have no header."""
        try:
            return read_table(training_part(self.file))
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
            return are_measured(self.table.numbers(column).tolist())
        except DataError:
            return False

    def is_graded(self, column: str) -> bool:
        """Whether a column holds numbers that may be more than two labels: measurements, or grades."""
        return self.roles.kinds[column] == "number" and self.table.frame[column].n_unique() > 2

    @cached_property
    def lines(self) -> list[str]:
        """The first lines of a text; none of a folder, and none of arrays."""
        if self.item.path.is_dir() or self.arrays is not None:
            return []
        return list(islice(read_lines(self.item.path), LINES))


def are_measured(values: Sequence[Any]) -> bool:
    """Whether values are measurements: numbers with decimals, or of many different values."""
    try:
        numbers = [float(value) for value in values]
    except ValueError:
        return False
    return len(set(numbers)) >= MEASURED or any(value != int(value) for value in numbers)
