"""Series: what forecasting reads from a table, and their scales, which are fitted on the training part."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from unspool.data.problems import Problems
from unspool.data.scale import LARGEST, Scale
from unspool.data.scale_table import ScaleTable
from unspool.data.tables import Table, group_rows
from unspool.data.times import Moments, TimeAxis, Times
from unspool.errors import ArgumentError, DataError, ShapeError, UnknownNameError

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Series:
    """One series of T steps, with covariates that are known ahead and others of which only the past is.

    The stamps and the future covariates may extend beyond the values.
    """

    name: str
    axis: TimeAxis
    moments: Moments  # (T or more)
    values: Floats  # (T, targets)
    future_covariates: Floats  # (T or more, ·)
    past_covariates: Floats  # (T, ·)

    def __len__(self) -> int:
        return len(self.values)

    def seen(self, begin: int, end: int) -> Floats:
        """Steps `begin` … `end − 1` of the values, the past and the future covariates, side by side."""
        parts = (self.values, self.past_covariates, self.future_covariates)
        return np.concatenate([part[begin:end] for part in parts], axis=1)

    def stamps(self, origin: int, horizon: int) -> list[str]:
        """The stamps of steps `origin` … `origin + horizon − 1` as text, also of those beyond the last row."""
        beyond = max(origin + horizon - len(self.moments), 0)
        moments = np.concatenate([self.moments, self.axis.after(self.moments[-1].item(), beyond)])
        return [self.axis.spell(moment.item()) for moment in moments[origin : origin + horizon]]


def read_series(
    table: Table,
    *,
    time: str,
    targets: Sequence[str],
    series: str | None = None,
    future_covariates: Sequence[str] = (),
    past_covariates: Sequence[str] = (),
) -> list[Series]:
    """The series of a table, each sorted by time.

    The rows of several series may be mixed. Rows at the end of a series without any target are its future: they have
    stamps and future covariates. No other entry may be missing, nor may a step of the axis, which all series share.

    Args:
        table: The table; a row is one step of one series.
        time: The column of times.
        targets: The columns to forecast.
        series: The column with the series that a row belongs to; None: all rows are one series.
        future_covariates: Columns that are known ahead.
        past_covariates: Columns of which only the past is known.

    Returns:
        The series in the order of their first rows.

    Example:
        read_series(read_table("sales.csv"), time="month", targets=["sales"], series="shop")
    """
    _check_roles([time, *targets, *future_covariates, *past_covariates, *([] if series is None else [series])])
    if not targets:
        raise ArgumentError.of("target", targets, "names no column", "Name the column to predict")
    names = [", ".join(targets)] * len(table) if series is None else table.text(series)
    times = table.times(time)
    values, future, past = (_matrix(table, columns) for columns in (targets, future_covariates, past_covariates))
    groups = group_rows(names)
    for rows in groups:
        _check_order(table, times, rows)
    longest = max(groups, key=len)
    axis = TimeAxis.infer(Times(times.moments[longest], times.form))
    found, problems = [], Problems()
    for rows in groups:
        _check_axis(table, times, axis, rows)
        name = names[rows[0]]
        seen = _past(table, name, values, rows)
        _check_filled(problems, table, targets, values, seen)
        _check_filled(problems, table, past_covariates, past, seen)
        _check_filled(problems, table, future_covariates, future, rows)
        found.append(Series(name, axis, times.moments[rows], values[seen], future[rows], past[seen]))
    problems.refuse()
    return found


def _past(table: Table, name: str, values: Floats, rows: NDArray[np.intp]) -> NDArray[np.intp]:
    """The rows of a series up to its last target; those after it are its future."""
    there = np.flatnonzero(~np.isnan(values[rows]).all(axis=1))
    if not len(there):
        raise DataError(f"{table.place(int(rows[0]))}: the series {name!r} has no target. Give its past.")
    return rows[: int(there[-1]) + 1]


def _check_roles(columns: Sequence[str]) -> None:
    for column in columns:
        if columns.count(column) > 1:
            raise ArgumentError(f"the column {column!r} has two roles. Name it once, as what it is to the forecast.")


def fit_scales(series: Sequence[Series], ends: Sequence[int]) -> ScaleTable:
    """The scale of each series by its name, from its first steps alone.

    Args:
        series: The series.
        ends: For each series, the step up to which, and without which, it may be seen.
    """

    def fit() -> Iterator[tuple[str, Scale]]:
        for one, end in zip(series, ends, strict=True):
            if not 0 < end <= len(one):
                raise ArgumentError.of("ends", end, f"is not a step of {one.name!r}", f"Give 1 to {len(one)}")
            yield one.name, Scale.of(one.seen(0, end), f"the series {one.name!r}")

    return ScaleTable.of(fit())


def find_scale(scales: Mapping[str, Scale], name: str) -> Scale:
    """The scale of a series."""
    if name not in scales:
        raise UnknownNameError.among("series", name, scales)
    return scales[name]


def standardize(series: Series, scales: Mapping[str, Scale]) -> Series:
    """The series in deviations from its mean, column by column."""
    scale = find_scale(scales, series.name)
    parts = (series.values, series.past_covariates, series.future_covariates)
    width = sum(part.shape[1] for part in parts)
    if width != len(scale.mean):
        raise ShapeError(f"{series.name!r} has {width} columns, and {len(scale.mean)} when scaled. Give the same.")
    first, second = np.cumsum([part.shape[1] for part in parts[:2]])
    columns = (slice(first), slice(first, second), slice(second, None))
    values, past, future = (scale.standardize(part, own) for part, own in zip(parts, columns, strict=True))
    return replace(series, values=values, past_covariates=past, future_covariates=future)


def refuse_far(scaled: Series, given: Series) -> None:
    """Refuse numbers so far from those of training that they are infinite in float32, as models read them."""
    for role in ("values", "past_covariates", "future_covariates"):
        for step, column in np.argwhere(np.abs(getattr(scaled, role)) > np.finfo(np.float32).max)[:1]:
            number = getattr(given, role)[step, column]
            raise DataError(
                f"the series {given.name!r} has {number:g} at step {step}, too far from all training data. Correct it."
            )


def _matrix(table: Table, columns: Sequence[str]) -> Floats:
    found = [table.numbers(column, empty=True) for column in columns]
    return np.stack(found, axis=1) if found else np.empty((len(table), 0))


def _check_order(table: Table, times: Times, rows: NDArray[np.intp]) -> None:
    for late in np.flatnonzero(np.diff(times.moments[rows]) <= 0)[:1]:
        before, row = int(rows[late]), int(rows[late + 1])
        same = times.moments[before] == times.moments[row]
        problem = "is there twice" if same else f"comes after {times.spell(before)}"
        remedy = "Keep one row for each, or name the `series_column`" if same else "Sort the rows by time"
        raise DataError(f"{table.place(row)}: {times.spell(row)} {problem}. {remedy}.")


def _check_axis(table: Table, times: Times, axis: TimeAxis, rows: NDArray[np.intp]) -> None:
    moments = times.moments[rows]
    for late in axis.breaks(moments)[:1]:
        before, row = int(rows[late - 1]), int(rows[late])
        raise DataError(
            f"{table.place(row)}: {times.spell(row)} is {axis.distances(moments)[late - 1]:.4g} steps after "
            f"{times.spell(before)}, where a step is {axis}. Fill in the rows that are missing, or give as "
            "`time_column` one that counts the rows."
        )


def _check_filled(
    problems: Problems, table: Table, columns: Sequence[str], matrix: Floats, rows: NDArray[np.intp]
) -> None:
    """Note entries that are missing, and numbers with which nothing can be computed."""
    for place, column in np.argwhere(~(np.abs(matrix[rows]) < LARGEST)):
        row, name = int(rows[place]), columns[column]
        if np.isnan(matrix[row, column]):
            problem = f"`{name}` has no number within its series. Fill it in; only targets at the end of a series may "
            problem += "be empty, all of a row at once."
        else:
            problem = f"`{name}` is {matrix[row, column]:.3g}, beyond {LARGEST:g}. Give it in a larger unit."
        problems.add(f"{table.place(row)}: {problem}")
