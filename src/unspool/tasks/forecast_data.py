"""Data of forecasting: the columns of the table, what is fitted on its training part, and batches of forecasts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from unspool.data import saved
from unspool.data.columns import SERIES_NAMES, TIME_NAMES, guess_column
from unspool.data.origins import Origins, inputs_at
from unspool.data.scale import Scale
from unspool.data.seasons import guess_season
from unspool.data.sequences import Indices
from unspool.data.series import Floats, Series, find_scale, fit_scales, read_series
from unspool.data.tables import Table, require_columns
from unspool.errors import ArgumentError, DataError
from unspool.models.example_model import Batch
from unspool.models.forecaster import Window
from unspool.settings.data import SeriesData


@dataclass(frozen=True)
class Terms:
    """What is fitted on the training data, and is the same for all other data."""

    time: str | None
    targets: tuple[str, ...]
    step: str  # of time, such as "1 month"
    season: int
    lookback: int
    scales: Mapping[str, Scale]  # of the columns of each series
    units: Mapping[str, Floats]  # the mean change of each target of a series over a season: the unit of MASE

    @classmethod
    def find(cls, series: Sequence[Series], data: SeriesData, ends: Sequence[int]) -> Self:
        """Fit them.

        Args:
            series: The series.
            data: The settings; season and lookback are guessed where they are not given.
            ends: For each series, the step up to which, and without which, it may be seen.
        """
        short = int(np.argmin(ends))
        season = data.season or _guess_season(series[short], data, ends[short])
        if season >= ends[short]:
            problem = f"is not less than the {ends[short]} training steps of {series[short].name!r}"
            raise ArgumentError.of("season", season, problem, "Give less, or more data")
        lookback = data.lookback or min(2 * max(season, data.horizon), longest_lookback(ends[short], data.horizon))
        seen = {one.name: one.values[:end] for one, end in zip(series, ends, strict=True)}
        units = {name: _season_change(name, values, season, data.target) for name, values in seen.items()}
        columns = data.time_column, data.target, str(series[0].axis)
        return cls(*columns, season, lookback, fit_scales(series, ends), units)

    def dump(self) -> dict[str, Any]:
        """As JSON has it."""
        return {
            **{"time": self.time, "targets": list(self.targets), "step": self.step},
            **{"season": self.season, "lookback": self.lookback},
            "scales": {name: one.dump() for name, one in self.scales.items()},
            "units": {name: one.tolist() for name, one in self.units.items()},
        }

    @classmethod
    def load(cls, document: Mapping[str, Any]) -> Self:
        """What `dump` gave."""
        try:
            scales = {name: Scale.load(one) for name, one in document["scales"].items()}
            units = {name: np.array(one, np.float64) for name, one in document["units"].items()}
            targets = tuple(saved.read_names(document, "targets"))
            columns = saved.read_name(document, "time"), targets, str(document["step"])
            steps = saved.read_count(document, "season"), saved.read_count(document, "lookback")
            if any(one.shape != (len(targets),) or not (one > 0).all() for one in units.values()):
                raise ValueError(f"{len(targets)} targets, and units of another number")
            if units.keys() != scales.keys():
                raise ValueError("units and scales of different series")
            return cls(*columns, *steps, scales, units)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            problem = "the run's vocabulary.json does not say how to read series"
            raise DataError(f"{problem}: {error!r}. Train again.") from error


@dataclass(frozen=True)
class ForecastPart:
    """Origins of forecasts, each a series and the first step to predict."""

    series: Sequence[Series]
    scaled: Sequence[Series]
    pairs: NDArray[np.int64]
    origins: Origins | None  # None where the future is not known
    terms: Terms
    horizon: int

    @property
    def lengths(self) -> Indices:
        return np.full(len(self.pairs), self.terms.lookback, np.int64)

    @property
    def counts(self) -> Indices:
        return np.ones(len(self.pairs), np.int64)

    def batch(self, indices: Indices) -> Batch:
        pairs = self.pairs[indices]
        if self.origins is None:
            seen = [inputs_at(self.scaled[one], at, self.terms.lookback, self.horizon) for one, at in pairs]
            past, future = (np.stack([one[place] for one in seen], axis=1) for place in (0, 1))
            target = None
        else:
            found = self.origins.batch(pairs)
            past, future, target = found.past, found.future, _tensor(found.target)
        units = self.units(indices)
        deviations = np.stack([self._scale(one).deviation for one in pairs[:, 0]])
        window = Window(_tensor(past), _tensor(future), _tensor(units / deviations[:, : units.shape[1]]))
        return Batch(window, torch.from_numpy(self.lengths[indices]), target, len(indices))

    def history(self, index: int, steps: int) -> Floats:
        """The last values before an origin, (steps, targets), in their own units."""
        one, at = self.pairs[index]
        found: Floats = self.series[one].values[at - steps : at]
        return found

    def targets(self, indices: Indices) -> Floats:
        """The true next steps, (examples, horizon, targets), in their own units."""
        return np.stack([self.series[one].values[at : at + self.horizon] for one, at in self.pairs[indices]])

    def units(self, indices: Indices) -> Floats:
        """The units of MASE, (examples, targets)."""
        return np.stack([self.terms.units[self.series[one].name] for one in self.pairs[indices, 0]])

    def unscale(self, index: int, prediction: Floats) -> Floats:
        """A prediction (horizon, targets, quantiles) in the units of its series."""
        scale = self._scale(self.pairs[index, 0])
        found: Floats = np.moveaxis(scale.undo(np.moveaxis(prediction, -1, 0)), 0, -1)
        return found

    def _scale(self, number: int) -> Scale:
        return find_scale(self.terms.scales, self.series[number].name)


def longest_lookback(end: int, horizon: int) -> int:
    """The most steps that a forecast may read, such that half of the training part is left to forecast from."""
    return max((end - horizon) // 2, 1)


def _guess_season(series: Series, data: SeriesData, end: int) -> int:
    """The season of the training part; 1 if it is longer than a lookback can be."""
    season = guess_season(series.values[:end], series.axis)
    most = longest_lookback(end, data.horizon)
    return season if season <= min(most, data.lookback or most) else 1


def name_columns(table: Table, data: SeriesData) -> SeriesData:
    """The settings with the columns of time and targets named, by a guess where they are not."""
    columns = (data.series_column, *data.target, *data.future_covariates, *data.past_covariates)
    others = [name for name in columns if name]
    require_columns(table.columns, [name for name in (data.time_column, *others) if name], table.files[0])
    if len(table.columns) == 1:
        raise DataError(
            f"{table.files[0]} has one column only, {table.columns[0]!r}, and a series is times and values. Add a "
            "column of times, such as 2024-01, 2024-02, … or 1, 2, …"
        )
    time = data.time_column or guess_column(table, TIME_NAMES, "the times", "time_column", others)
    free = [time, *others]
    targets = data.target or (guess_column(table, SERIES_NAMES, "the values to forecast", "target", free),)
    return data.model_copy(update={"time_column": time, "target": targets})


def read_named(table: Table, data: SeriesData) -> list[Series]:
    """The series of a table, by named columns."""
    assert data.time_column is not None
    covariates = {"future_covariates": data.future_covariates, "past_covariates": data.past_covariates}
    return read_series(table, time=data.time_column, targets=data.target, series=data.series_column, **covariates)


def _tensor(values: ArrayLike) -> torch.Tensor:
    return torch.from_numpy(np.asarray(values, np.float32))


def _season_change(name: str, values: Floats, season: int, targets: Sequence[str]) -> Floats:
    """The mean |y[t] − y[t − season]| of each target, which must be above 0 to measure errors by."""
    change: Floats = np.abs(values[season:] - values[:-season]).mean(0)
    for place in np.flatnonzero(change <= 1e-12 * np.abs(values).max(0)).tolist():
        constant = "is constant" if np.ptp(values[:, place]) == 0 else f"is the same after every season of {season}"
        raise DataError(
            f"the series {name!r}: `{targets[place]}` {constant} in its training part, so that there is nothing to "
            "learn, and errors have no unit. Leave it out, or give another `season`."
        )
    return change


def check_series(series: Sequence[Series], data: SeriesData) -> None:
    """Refuse series in memory that could not have been read from a file."""
    if not series:
        raise DataError("there are no series. Give at least one.")
    names = [one.name for one in series]
    for one in series:
        if names.count(one.name) > 1:
            raise DataError(f"two series are called {one.name!r}. Give each a name of its own.")
        _check_array(one.name, "values", one.values, data.target)
        _check_array(one.name, "future_covariates", one.future_covariates, data.future_covariates)
        _check_array(one.name, "past_covariates", one.past_covariates, data.past_covariates)


def _check_array(name: str, role: str, array: Floats, columns: Sequence[str]) -> None:
    """Refuse an array of another width than there are columns, and numbers that are not finite."""
    if array.ndim != 2 or array.shape[1] != len(columns):
        called = "targets" if role == "values" else role
        raise DataError(
            f"the series {name!r} has {role} of shape {array.shape}, and {len(columns)} {called} are named. "
            f"Give (steps, {len(columns)})."
        )
    for step, column in np.argwhere(~np.isfinite(array))[:1]:
        raise DataError(
            f"the series {name!r}: `{columns[column]}` is {array[step, column]} at step {step}. Fill it in."
        )
