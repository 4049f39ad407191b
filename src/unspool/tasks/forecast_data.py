"""What forecasting reads: the table's columns and steps, what is found in its training part, and origins in batches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from pydantic import AfterValidator, Field

from unspool.data.forecasts import guess_season
from unspool.data.labelled import guess_column
from unspool.data.origins import Origins, inputs_at
from unspool.data.sequences import Rows
from unspool.data.series import Floats, Scaler, Series, read_series
from unspool.data.tables import Table, require_columns
from unspool.errors import ArgumentError, DataError
from unspool.learning.settings import Files, Section, Share, Size
from unspool.tasks.examples import Batch
from unspool.tasks.forecaster import Window

#: Names of columns that are taken for what they say, if none is given.
TIME_NAMES = ("time", "date", "datetime", "timestamp", "year", "month", "week", "day", "hour", "ds")
TARGET_NAMES = ("value", "target", "y")


def _ordered(quantiles: tuple[float, ...]) -> tuple[float, ...]:
    if list(quantiles) != sorted({*quantiles, 0.5}):
        raise ArgumentError.of("quantiles", quantiles, "do not ascend, or lack 0.5", "Give such as 0.1, 0.5, 0.9")
    return quantiles


class SeriesData(Section):
    """A table of series: a row is a step of one, in the order of time. The last steps are to validate and test on."""

    files: Annotated[Files, Field(min_length=1)]
    """files, folders and patterns"""
    time_column: str | None = None
    """when; guessed from the names if not said"""
    targets: tuple[str, ...] = ()
    """the columns to foretell; guessed from the names if not said"""
    series_column: str | None = None
    """which series a row is a step of; one series if not said"""
    known: tuple[str, ...] = ()
    """columns that are known ahead, such as holidays; rows without targets at the end tell their future"""
    unknown: tuple[str, ...] = ()
    """further columns of which the past alone is known"""
    horizon: Size = 12
    """steps to foretell"""
    look_back: Size | None = None
    """steps that are read before; two seasons and two horizons at least, if not said and the data suffices"""
    season: Size | None = None
    """steps after which the series resembles itself; guessed from calendar and data if not said"""
    quantiles: Annotated[
        tuple[Annotated[float, Field(gt=0, lt=1)], ...], AfterValidator(_ordered), Field(min_length=1)
    ] = (0.1, 0.5, 0.9)
    """what is foretold of each value, the median among them"""
    validation: Share | Size = 0.2
    """steps of each series to validate on, or their share of the shortest; at least a horizon"""
    test: Share | Size = 0.0
    """steps of each series, after those, to test on at the end, or their share"""

    def count_steps(self, given: float, shortest: int) -> int:
        """Of `validation` or `test`, where the shortest series has so many."""
        return given if isinstance(given, int) else max(self.horizon, round(given * shortest)) if given else 0


@dataclass(frozen=True)
class Terms:
    """What the training data was found to be, and all other data must be like."""

    time: str | None
    targets: tuple[str, ...]
    step: str  # of time, such as "1 month"
    season: int
    look_back: int
    scaler: Scaler
    scales: Mapping[str, Floats]  # what a season changes each target of a series by, in the mean: the unit of MASE

    @classmethod
    def find(cls, series: Sequence[Series], data: SeriesData, ends: Sequence[int]) -> Self:
        """Of series that may be seen up to, and without, the step `end` of each; what is not said is guessed."""
        short = int(np.argmin(ends))
        most = max((ends[short] - data.horizon) // 2, 1)  # half of the training part is left to forecast from
        season = data.season
        if season is None:
            season = guess_season(series[short].values[: ends[short]], series[short].axis)
            season = season if season <= min(most, data.look_back or most) else 1
        if season >= ends[short]:
            problem = f"is not less than the {ends[short]} training steps of {series[short].name!r}"
            raise ArgumentError.of("season", season, problem, "Give less, or more data")
        look_back = data.look_back or min(2 * max(season, data.horizon), most)
        seen = {one.name: one.values[:end] for one, end in zip(series, ends, strict=True)}
        scales = {name: _season_scale(name, values, season, data.targets) for name, values in seen.items()}
        columns = data.time_column, data.targets, str(series[0].axis)
        return cls(*columns, season, look_back, Scaler.fit(series, ends), scales)

    def dump(self) -> dict[str, Any]:
        """As JSON has it."""
        scales = {name: one.tolist() for name, one in self.scales.items()}
        columns = {"time": self.time, "targets": list(self.targets), "step": self.step}
        steps = {"season": self.season, "look_back": self.look_back}
        return {**columns, **steps, "scaler": self.scaler.dump(), "scales": scales}

    @classmethod
    def load(cls, document: Mapping[str, Any]) -> Self:
        """What `dump` gave."""
        try:
            scales = {name: np.array(one, np.float64) for name, one in document["scales"].items()}
            columns = document["time"], tuple(document["targets"]), str(document["step"])
            steps = int(document["season"]), int(document["look_back"])
            if not columns[1] or any(one.shape != (len(columns[1]),) for one in scales.values()):
                raise ValueError(f"{len(columns[1])} targets, and scales of another number")
            return cls(*columns, *steps, Scaler.load(document["scaler"]), scales)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            problem = "the run's vocabulary.json does not say how to read series"
            raise DataError(f"{problem}: {error!r}. Train again.") from error


@dataclass(frozen=True)
class ForecastPart:
    """Origins of forecasts, each a series and the first step to foretell."""

    series: Sequence[Series]
    scaled: Sequence[Series]
    pairs: NDArray[np.int64]
    origins: Origins | None  # None where nobody knows what is right
    terms: Terms
    horizon: int

    @property
    def lengths(self) -> Rows:
        return np.full(len(self.pairs), self.terms.look_back, np.int64)

    @property
    def counts(self) -> Rows:
        return np.ones(len(self.pairs), np.int64)

    def batch(self, rows: Rows) -> Batch:
        pairs = self.pairs[rows]
        if self.origins is None:
            seen = [inputs_at(self.scaled[one], at, self.terms.look_back, self.horizon) for one, at in pairs]
            past, future = (np.stack([one[place] for one in seen], axis=1) for place in (0, 1))
            target = None
        else:
            found = self.origins.batch(pairs)
            past, future, target = found.past, found.future, _tensor(found.target)
        scales = self.scales(rows)
        deviations = np.stack([self.terms.scaler.deviations[self.series[one].name] for one in pairs[:, 0]])
        unit = scales / deviations[:, : scales.shape[1]]
        window = Window(_tensor(past), _tensor(future), _tensor(unit))
        return Batch(window, torch.from_numpy(self.lengths[rows]), target, len(rows))

    def history(self, row: int, steps: int) -> Floats:
        """The last values before an origin, (steps, targets), in their own units."""
        one, at = self.pairs[row]
        found: Floats = self.series[one].values[at - steps : at]
        return found

    def truth(self, rows: Rows) -> Floats:
        """What came, (rows, horizon, targets), in its own units."""
        return np.stack([self.series[one].values[at : at + self.horizon] for one, at in self.pairs[rows]])

    def scales(self, rows: Rows) -> Floats:
        """The units of MASE, (rows, targets)."""
        return np.stack([self.terms.scales[self.series[one].name] for one in self.pairs[rows, 0]])

    def unscale(self, row: int, answer: Floats) -> Floats:
        """An answer (horizon, targets, quantiles) in its series' own units."""
        name = self.series[self.pairs[row, 0]].name
        found: Floats = np.moveaxis(self.terms.scaler.inverse(name, np.moveaxis(answer, -1, 0)), 0, -1)
        return found


def name_columns(table: Table, data: SeriesData) -> SeriesData:
    """The settings with the columns of time and targets named, by guess where they are not."""
    others = [name for name in (data.series_column, *data.targets, *data.known, *data.unknown) if name]
    require_columns(table.columns, [*([data.time_column] if data.time_column else []), *others], table.files[0])
    if len(table.columns) == 1:
        raise DataError(
            f"{table.files[0]} has one column only, {table.columns[0]!r}, and a series is times and values. Add a "
            "column of times, such as 2024-01, 2024-02, … or 1, 2, …"
        )
    time = data.time_column or guess_column(table, TIME_NAMES, "the times", "--time-column", others)
    free = [time, *others]
    targets = data.targets or (guess_column(table, TARGET_NAMES, "what is foretold", "--target", free),)
    return data.model_copy(update={"time_column": time, "targets": targets})


def read_named(table: Table, data: SeriesData) -> list[Series]:
    """The series of a table, by named columns."""
    assert data.time_column is not None
    roles = {"targets": data.targets, "known": data.known, "unknown": data.unknown}
    return read_series(table, time=data.time_column, series=data.series_column, **roles)


def _tensor(values: ArrayLike) -> torch.Tensor:
    return torch.from_numpy(np.asarray(values, np.float32))


def _season_scale(name: str, values: Floats, season: int, targets: Sequence[str]) -> Floats:
    """The mean |y[t] − y[t − season]| of each target, where it is a unit to measure errors by."""
    scale: Floats = np.abs(values[season:] - values[:-season]).mean(0)
    for place in np.flatnonzero(scale <= 1e-12 * np.abs(values).max(0)).tolist():
        constant = "is constant" if np.ptp(values[:, place]) == 0 else f"is the same after every season of {season}"
        raise DataError(
            f"the series {name!r}: `{targets[place]}` {constant} in its training part, so that there is nothing to "
            "learn, and errors have no unit. Leave it out, or say another `season`."
        )
    return scale


def check_series(series: Sequence[Series], data: SeriesData) -> None:
    """Refuse what a file's reader would have refused."""
    if not series:
        raise DataError("there are no series. Give at least one.")
    names = [one.name for one in series]
    for one in series:
        if names.count(one.name) > 1:
            raise DataError(f"two series are called {one.name!r}. Give each a name of its own.")
        for role, columns in (("values", data.targets), ("known", data.known), ("unknown", data.unknown)):
            array = getattr(one, role)
            if array.ndim != 2 or array.shape[1] != len(columns):
                names_of = "targets" if role == "values" else role
                raise DataError(
                    f"the series {one.name!r} has {role} of shape {array.shape}, and {len(columns)} {names_of} are "
                    f"named. Give (steps, {len(columns)})."
                )
            for step, column in np.argwhere(~np.isfinite(array))[:1]:
                raise DataError(
                    f"the series {one.name!r}: `{columns[column]}` is {array[step, column]} at step {step}. Fill it in."
                )
