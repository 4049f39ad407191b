"""Roles: what the columns of a table are for, by their names and by what is in them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from unspool.data.columns import ID_WORDS, SERIES_NAMES, TIME_NAMES, TIME_WORDS, find_column, is_code, split_name
from unspool.data.tables import Table
from unspool.errors import DataError

if TYPE_CHECKING:
    import polars as pl

Kind = Literal["time", "number", "label", "text", "empty"]

#: Rows from the beginning by which a column is judged.
ROWS = 1000
#: A label is at most this long on average, and each is used by as many rows on average.
LABEL_LENGTH, LABEL_ROWS = 30, 1.5
#: The fraction of rows of a series that have a time of their own, but for mistakes.
UNIQUE = 0.9
#: An indicator has at most as many kinds, and as many rows for each on average.
MOST_KINDS, ROWS_PER_KIND = 31, 3
#: Numbered columns of which a table must have as many for its rows to be series.
NUMBERED = 8
#: A numbered name, such as V12, "12" or d_1913; a date is one too.
NUMBERED_NAME = re.compile(r"[A-Za-z]{0,2}_?\d+|\d{4}[-/]\d{1,2}([-/]\d{1,2})?|\d{1,2}/\d{1,2}/\d{2,4}")


class SeriesColumns(NamedTuple):
    """The columns of series."""

    time: str
    series: str | None
    targets: tuple[str, ...]
    ignored: tuple[str, ...]


class Roles:
    """The columns of a table.

    Example:
        roles = Roles(read_table("sales.csv"))
        roles.kinds["price"], roles.find_time(), roles.find_series()
    """

    def __init__(self, table: Table) -> None:
        self.table = table
        self.head = Table(table.frame.head(ROWS), table.files, table.firsts, table.lines)

    @cached_property
    def kinds(self) -> dict[str, Kind]:
        """What each column holds."""
        return {column: self._kind(column) for column in self.table.columns}

    def of_kind(self, *kinds: Kind) -> list[str]:
        """The columns that hold one of these."""
        return [column for column, kind in self.kinds.items() if kind in kinds]

    def measured(self) -> list[str]:
        """The columns of numbers that are no ids."""
        return [column for column in self.of_kind("number") if not self.is_identity(column)]

    def is_identity(self, column: str) -> bool:
        """Whether a column names or counts the rows, or what they belong to: an id or an index, by its name."""
        words = split_name(column)
        unnamed = column == str(self.table.columns.index(column) + 1) or words[:1] == ["unnamed"]
        return unnamed or bool(ID_WORDS & {*words})

    def counts_rows(self, column: str) -> bool:
        """Whether a column is 0, 1, 2, …, from whichever number."""
        if self.kinds[column] != "number":
            return False
        values = self.head.numbers(column, empty=True)
        return len(values) > 1 and bool((np.diff(values) == 1).all())

    def find_time(self, taken: Iterable[str] = ()) -> str | None:
        """The column of times: dates of well-known names, other dates, or numbers that ascend and have such a name."""
        free = [column for column in self.table.columns if column not in {*taken}]
        dates = [column for column in free if self.kinds[column] == "time"]
        if dates:
            return find_column(dates, TIME_NAMES) or min(dates, key=lambda one: not _tells_time(one))
        return self._find_counter(free)

    def _find_counter(self, free: Iterable[str]) -> str | None:
        """A column of numbers that ascend, by a name of times."""
        named = [column for column in free if _tells_time(column) and self._counts_time(column)]
        return find_column(named, TIME_NAMES) or next(iter(named), None)

    def find_series(
        self,
        time: str | None = None,
        series: str | None = None,
        targets: Sequence[str] = (),
        others: Sequence[str] = (),
    ) -> SeriesColumns | None:
        """The columns of series to forecast; None where there are no times or no numbers.

        Args:
            time: The column of times, if it is known; the other arguments likewise.
            series: The column with the series that a row belongs to.
            targets: The columns to forecast.
            others: Columns that are something else.
        """
        taken = [*targets, *others, *([series] if series else [])]
        time = time or self.find_time(taken) or self._find_index(taken)
        if time is None:
            return None
        series = series or self._find_owner(time, [*targets, *others])
        if series is None and self._repeats(time):
            return None
        found = tuple(targets) or self._find_targets([time, series, *others])
        return self._name_series(time, series, found, others) if found else None

    def _repeats(self, time: str) -> bool:
        """Whether so many rows have the same time that they cannot be one series."""
        return bool(self.table.frame[time].n_unique() < UNIQUE * len(self.table))

    def _name_series(
        self, time: str, series: str | None, targets: tuple[str, ...], others: Sequence[str]
    ) -> SeriesColumns:
        ignored = [one for one in self.table.columns if one not in (time, series, *targets, *others)]
        return SeriesColumns(time, series, targets, tuple(ignored))

    def _find_targets(self, taken: Sequence[str | None]) -> tuple[str, ...]:
        """The column of numbers that has a well-known name, or all of them, without indicators beside others."""
        free = [one for one in self.measured() if one not in taken]
        known = find_column(free, SERIES_NAMES)
        series = [one for one in free if not self.is_indicator(one)]
        return (known,) if known else tuple(series or free)

    def is_indicator(self, column: str) -> bool:
        """Whether numbers say what kind of row it is, such as a promotion, or a day of the week, and measure nothing.

        There are two of them, such as 0 and 1; or a few whole ones, and the column has a name of such.
        """
        if self.kinds[column] != "number":
            return False
        values = self.head.numbers(column, empty=True)
        kinds = np.unique(values[~np.isnan(values)])
        if len(kinds) * ROWS_PER_KIND > len(values) or (kinds != np.round(kinds)).any():
            return False
        return len(kinds) <= 2 or (len(kinds) <= MOST_KINDS and is_code(column))

    def find_owner_of(self, label: str) -> str | None:
        """The id of sequences of several rows each, if the rows of a sequence have one label."""
        ids = [one for one in self.table.columns if one != label and self.is_identity(one)]
        return next((one for one in ids if self._is_shared(one) and self._is_constant(label, one)), None)

    def rows_are_series(self) -> bool:
        """Whether each row is a series: columns are numbered steps."""
        numbered = self.numbered()
        return len(numbered) >= NUMBERED and 2 * len(numbered) > len(self.table.columns)

    def numbered(self) -> list[str]:
        """The columns whose names are numbered, or dates."""
        return [column for column in self.table.columns if NUMBERED_NAME.fullmatch(column)]

    def _kind(self, column: str) -> Kind:
        import polars as pl

        entries = self.head.frame[column]
        if entries.dtype in (pl.Date, pl.Datetime):
            return "time"
        if entries.dtype.is_numeric() or entries.dtype == pl.Boolean:
            return "number"
        if entries.dtype != pl.String:
            return "empty" if entries.dtype == pl.Null else "text"
        return self._kind_of_text(column, entries.str.strip_chars().drop_nulls())

    def _kind_of_text(self, column: str, entries: pl.Series) -> Kind:
        there = entries.filter(entries != "")
        if not len(there):
            return "empty"
        if _succeeds(lambda: self.head.numbers(column, empty=True)):
            return "number"
        if _succeeds(lambda: self.head.times(column)):
            return "time"
        short = float(there.str.len_chars().mean()) <= LABEL_LENGTH  # type: ignore[arg-type]
        return "label" if short and len(there) >= LABEL_ROWS * there.n_unique() else "text"

    def _counts_time(self, column: str) -> bool:
        """Whether numbers ascend from row to row, or start again from where they were."""
        if self.kinds[column] != "number":
            return False
        values = self.head.numbers(column, empty=True)
        steps = np.diff(values)
        if not len(steps) or np.isnan(values).any():
            return False
        if (steps >= 0).all():
            return bool(steps.any())
        return bool((values[1:][steps < 0] == values[0]).all())

    def _find_index(self, taken: Sequence[str]) -> str | None:
        """A column that counts the rows, beside a single column of numbers."""
        counters = [one for one in self.table.columns if self.is_identity(one) and self.counts_rows(one)]
        others = [one for one in self.of_kind("number", "label", "text") if one not in counters]
        if len(counters) == 0 or len(others) != 1 or counters[0] in taken:
            return None
        return counters[0]

    def _find_owner(self, time: str, taken: Sequence[str]) -> str | None:
        """The column that says which series a row belongs to, where several rows have the same time."""
        frame = self.table.frame
        if frame[time].n_unique() == len(frame):
            return None
        free = [one for one in self.of_kind("label", "text", "number") if one not in (time, *taken)]
        unique = [one for one in free if self._tells_apart(one, time)]
        return self._choose_owner(unique)

    def _choose_owner(self, columns: Sequence[str]) -> str | None:
        """The first that is an id, or else the first that does not hold numbers."""
        identity = next((one for one in columns if self.is_identity(one)), None)
        return identity or next((one for one in columns if self.kinds[one] != "number"), None)

    def _tells_apart(self, column: str, time: str) -> bool:
        """Whether rows of the same time differ in a column, which several rows share."""
        return self._is_shared(column) and self.table.frame.select(column, time).n_unique() == len(self.table)

    def _is_shared(self, column: str) -> bool:
        """Whether several rows have the same entry."""
        return 2 * self.table.frame[column].n_unique() <= len(self.table)

    def _is_constant(self, column: str, owner: str) -> bool:
        """Whether all rows of an owner have the same entry."""
        frame = self.table.frame
        return bool(frame.select(owner, column).n_unique() == frame[owner].n_unique())


def _tells_time(column: str) -> bool:
    """Whether the name of a column has a word for a time in it."""
    return bool(TIME_WORDS & {*split_name(column)})


def _succeeds(read: Callable[[], object]) -> bool:
    try:
        read()
    except DataError:
        return False
    return True
