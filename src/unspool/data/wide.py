"""Wide tables of series, as those of the M4 competition: a row is a series, a numbered column a step; in long form."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from unspool.data.roles import Roles
from unspool.data.tables import MISSING, Table
from unspool.data.times import read_times
from unspool.errors import DataError

if TYPE_CHECKING:
    import polars as pl

#: The columns of the long form; the first where the steps have no dates.
STEP, DATE, VALUE, NAME = "step", "date", "value", "series"
#: Numbers in names of columns that are taken for years.
FIRST_YEAR, LAST_YEAR = 1500, 2200
#: A column that the wide table cannot have, as its name is not text.
ROW = "\0row"


class WideColumns(NamedTuple):
    """What the columns of a wide table are for."""

    name: str | None  # of the series
    steps: tuple[str, ...]  # from the first to the last
    others: tuple[str, ...]  # neither

    @property
    def series(self) -> str:
        """The column of the long form that names the series."""
        return NAME if self.name is None else self.name

    @property
    def time(self) -> str:
        """The column of the long form that has the times."""
        return DATE if _are_dates(self.steps) else STEP


def find_wide(roles: Roles) -> WideColumns | None:
    """The columns of a table whose rows are series; None if it is none.

    Args:
        roles: Of the table.

    Example:
        find_wide(Roles(read_table("Hourly-train.csv")))  # WideColumns("V1", ("V2", "V3", …), ())
    """
    if not roles.rows_are_series():
        return None
    steps = [one for one in roles.numbered() if roles.kinds[one] in ("number", "empty")]
    others = [one for one in roles.table.columns if one not in steps]
    frame = roles.table.frame
    name = next((one for one in others if _names_rows(frame[one])), None)
    return WideColumns(name, tuple(steps), tuple(one for one in others if one != name)) if steps else None


def unfold(table: Table, columns: WideColumns) -> Table:
    """The long form: one row per step of each series. Empty entries before and after a series are no steps of it.

    Args:
        table: A wide table.
        columns: What its columns are for.

    Returns:
        A table with the names of the series, the times and the values; a row has the line of its series.

    Raises:
        DataError: A series has no values.
    """
    import polars as pl

    frame = table.frame.with_row_index(ROW)
    names = pl.col(columns.name).cast(pl.String) if columns.name else (pl.col(ROW) + 1).cast(pl.String)
    order = pl.Enum(columns.steps)
    long = (
        frame.select(pl.col(ROW), names.alias(columns.series), *columns.steps)
        .unpivot(on=list(columns.steps), index=[ROW, columns.series], variable_name=columns.time, value_name=VALUE)
        .with_columns(pl.col(columns.time).cast(order).to_physical().cast(pl.Int64).alias("\0step"))
    )
    there = ~pl.col(VALUE).cast(pl.String).fill_null("").str.strip_chars().str.to_lowercase().is_in(MISSING)
    ends = long.filter(there).group_by(ROW).agg(first=pl.col("\0step").min(), last=pl.col("\0step").max())
    if len(ends) < len(table):
        empty = np.setdiff1d(np.arange(len(table)), ends[ROW].to_numpy())
        raise DataError(f"{table.place(int(empty[0]))}: the series has no values. Leave the row out.")
    long = long.join(ends, on=ROW).filter(pl.col("\0step").is_between(pl.col("first"), pl.col("last")))
    long = long.sort(ROW, "\0step")
    times = pl.col(columns.time) if columns.time == DATE else (pl.col("\0step") + 1).cast(pl.String).alias(STEP)
    rows = long[ROW].to_numpy()
    found = long.select(columns.series, times, VALUE)
    firsts = tuple(int(np.searchsorted(rows, first)) for first in table.firsts)
    return Table(found, table.files, firsts, table.lines[rows], table.tolerant)


def _names_rows(entries: pl.Series) -> bool:
    """Whether every row has an entry of its own."""
    import polars as pl

    text = entries.cast(pl.String, strict=False).fill_null("").str.strip_chars()
    return bool((text != "").all()) and text.n_unique() == len(text)


def _are_dates(steps: tuple[str, ...]) -> bool:
    """Whether the names of steps are dates, which have separators, or years."""
    separated = all(any(mark in step for mark in "-/") for step in steps)
    years = all(step.isdigit() and FIRST_YEAR <= int(step) <= LAST_YEAR for step in steps)
    if not separated and not years:
        return False
    try:
        read_times(list(steps), lambda place: steps[place])
    except DataError:
        return False
    return True
