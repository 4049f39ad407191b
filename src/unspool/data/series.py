"""Series: what forecasting reads from a table, and the scaling that is learned from its training part."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unspool.data.tables import Table
from unspool.data.times import Moments, TimeAxis, Times
from unspool.errors import ArgumentError, DataError, ShapeError, UnknownNameError

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Series:
    """One series of T steps, with covariates that are known ahead and others that are not.

    The stamps and the known covariates may reach further than the values: into the future.
    """

    name: str
    axis: TimeAxis
    moments: Moments  # (T or more)
    values: Floats  # (T, targets)
    known: Floats  # (T or more, ·)
    unknown: Floats  # (T, ·)

    def __len__(self) -> int:
        return len(self.values)

    def seen(self, begin: int, end: int) -> Floats:
        """All that steps `begin` … `end − 1` have: values, unknown and known covariates, side by side."""
        return np.concatenate([part[begin:end] for part in (self.values, self.unknown, self.known)], axis=1)

    def stamps(self, origin: int, horizon: int) -> list[str]:
        """The stamps of steps `origin` … `origin + horizon − 1` as text, also of those that no row has yet."""
        beyond = max(origin + horizon - len(self.moments), 0)
        moments = np.concatenate([self.moments, self.axis.after(self.moments[-1].item(), beyond)])
        return [self.axis.spell(moment.item()) for moment in moments[origin : origin + horizon]]


def read_series(
    table: Table,
    *,
    time: str,
    targets: Sequence[str],
    series: str | None = None,
    known: Sequence[str] = (),
    unknown: Sequence[str] = (),
) -> list[Series]:
    """The series of a table: one, or as many as the column `series` has names; each in the order of time.

    The rows of several series may be mixed. Rows at a series' end without any target are its future: they have stamps
    and known covariates. No other entry may be missing, nor may a step of the axis, which all series share.
    """
    roles = [time, *targets, *known, *unknown, *([] if series is None else [series])]
    for column in roles:
        if roles.count(column) > 1:
            raise ArgumentError(f"the column {column!r} has two roles. Name it once, as what it is to the forecast.")
    if not targets:
        raise ArgumentError.of("targets", targets, "are none", "Name the column to foretell")
    names = np.array([", ".join(targets)] * len(table) if series is None else table.text(series), object)
    times = table.times(time)
    values, ahead, other = (_matrix(table, columns) for columns in (targets, known, unknown))
    groups = _groups(names)
    for rows in groups:
        _check_order(table, times, rows)
    longest = max(groups, key=len)
    axis = TimeAxis.infer(Times(times.moments[longest], times.form))
    found = []
    for rows in groups:
        _check_axis(table, times, axis, rows)
        there = np.flatnonzero(~np.isnan(values[rows]).all(axis=1))
        end = int(there[-1]) + 1 if len(there) else 0
        if not end:
            raise DataError(f"{table.place(int(rows[0]))}: the series {names[rows[0]]!r} has no target. Give its past.")
        _check_filled(table, targets, values, rows[:end])
        _check_filled(table, unknown, other, rows[:end])
        _check_filled(table, known, ahead, rows)
        past = rows[:end]
        found.append(Series(names[rows[0]], axis, times.moments[rows], values[past], ahead[rows], other[past]))
    return found


@dataclass(frozen=True)
class Scaler:
    """Mean and standard deviation of every column of every series, learned from its first steps alone.

    A column that does not change is only shifted: its deviation counts as 1.
    """

    means: Mapping[str, Floats]
    deviations: Mapping[str, Floats]

    @classmethod
    def fit(cls, series: Sequence[Series], ends: Sequence[int]) -> Self:
        """The scaling of series that may be seen up to, and without, the step `end` of each."""
        means, deviations = {}, {}
        for one, end in zip(series, ends, strict=True):
            if not 0 < end <= len(one):
                raise ArgumentError.of("ends", end, f"is not a step of {one.name!r}", f"Give 1 to {len(one)}")
            seen = one.seen(0, end)
            with np.errstate(over="ignore", invalid="ignore"):
                means[one.name] = seen.mean(axis=0)
                deviations[one.name] = np.where(np.ptp(seen, axis=0) > 0, seen.std(axis=0), 1.0)
            if not np.isfinite(means[one.name] + deviations[one.name]).all():
                raise DataError(f"the numbers of {one.name!r} are too large to be averaged. Divide them.")
            deviations[one.name][deviations[one.name] == 0] = 1.0  # a range so small that its square is zero
        return cls(means, deviations)

    def transform(self, series: Series) -> Series:
        """The series in its own units of deviation from its mean."""
        mean, deviation = self._of(series.name, series.seen(0, 1).shape[1])
        values, unknown = series.values.shape[1], series.unknown.shape[1]
        parts = (slice(values), slice(values, values + unknown), slice(values + unknown, None))
        scaled = [
            (array - mean[part]) / deviation[part]
            for array, part in zip((series.values, series.unknown, series.known), parts, strict=True)
        ]
        return replace(series, values=scaled[0], unknown=scaled[1], known=scaled[2])

    def inverse(self, name: str, values: ArrayLike) -> Floats:
        """Foretold values (…, targets) of a series in the units of its file."""
        array = np.asarray(values, np.float64)
        mean, deviation = self._of(name)
        if array.ndim == 0 or array.shape[-1] > len(mean):
            raise ShapeError.of("values", array.shape, "do not have the targets last", f"Give at most {len(mean)}")
        width = array.shape[-1]
        return array * deviation[:width] + mean[:width]

    def dump(self) -> dict[str, Any]:
        """What `load` needs, as JSON has it."""
        return {
            name: {"mean": self.means[name].tolist(), "deviation": self.deviations[name].tolist()}
            for name in self.means
        }

    @classmethod
    def load(cls, document: Any) -> Self:
        """A scaler from what `dump` gave; a DataError if it is anything else."""
        try:
            means, deviations = (
                {name: np.array(one[part], np.float64) for name, one in document.items()}
                for part in ("mean", "deviation")
            )
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise DataError(f"the scaler cannot be read: {error!r}. Take the run's own.") from error
        for name, mean in means.items():
            both = np.stack([mean, deviations[name]]) if mean.shape == deviations[name].shape else np.empty(0)
            if both.ndim != 2 or not np.isfinite(both).all() or (both[1] <= 0).any():
                raise DataError(f"the scaler of {name!r} is not numbers in pairs. Take the run's own.")
        return cls(means, deviations)

    def _of(self, name: str, width: int | None = None) -> tuple[Floats, Floats]:
        if name not in self.means:
            raise UnknownNameError.among("series", name, self.means)
        if width not in (None, len(self.means[name])):
            raise ShapeError(f"{name!r} has {width} columns, and {len(self.means[name])} when scaled. Give the same.")
        return self.means[name], self.deviations[name]


def _matrix(table: Table, columns: Sequence[str]) -> Floats:
    found = [table.numbers(column, empty=True) for column in columns]
    return np.stack(found, axis=1) if found else np.empty((len(table), 0))


def _groups(names: NDArray[np.object_]) -> list[NDArray[np.intp]]:
    """The rows of each name, names in the order of their first rows."""
    places: dict[str, int] = {}
    numbers = np.array([places.setdefault(name, len(places)) for name in names])
    order = np.argsort(numbers, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(numbers[order])) + 1)


def _check_order(table: Table, times: Times, rows: NDArray[np.intp]) -> None:
    for late in np.flatnonzero(np.diff(times.moments[rows]) <= 0)[:1]:
        before, row = int(rows[late]), int(rows[late + 1])
        same = times.moments[before] == times.moments[row]
        problem = "is there twice" if same else f"comes after {times.spell(before)}"
        remedy = "Keep one row for each, or say which column names the `series`" if same else "Sort the rows by time"
        raise DataError(f"{table.place(row)}: {times.spell(row)} {problem}. {remedy}.")


def _check_axis(table: Table, times: Times, axis: TimeAxis, rows: NDArray[np.intp]) -> None:
    moments = times.moments[rows]
    for late in axis.breaks(moments)[:1]:
        before, row = int(rows[late - 1]), int(rows[late])
        raise DataError(
            f"{table.place(row)}: {times.spell(row)} is {axis.distances(moments)[late - 1]:.4g} steps after "
            f"{times.spell(before)}, where a step is {axis}. Fill in the rows that are missing, or give a column "
            "as `time` that counts the rows."
        )


def _check_filled(table: Table, columns: Sequence[str], matrix: Floats, rows: NDArray[np.intp]) -> None:
    for place, column in np.argwhere(np.isnan(matrix[rows]))[:1]:
        raise DataError(
            f"{table.place(int(rows[place]))}: `{columns[column]}` has no number within its series. "
            "Fill it in; only targets at a series' end may be empty, all of a row at once."
        )
