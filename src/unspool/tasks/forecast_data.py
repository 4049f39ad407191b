"""Data of forecasting: what is fitted on its training part, and batches of forecasts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unspool.data import saved
from unspool.data.origins import Origins, Pairs, inputs_at
from unspool.data.scale import Scale
from unspool.data.scale_table import ArrayTable, dump_tables, load_tables
from unspool.data.seasons import Steps, guess_horizon, guess_lookback, guess_order, guess_season
from unspool.data.sequences import Indices
from unspool.data.series import Floats, Series, find_scale, fit_scales
from unspool.data.stored_series import find_twins, series_lengths
from unspool.errors import ArgumentError, DataError
from unspool.tasks.batch import Batch, Window

if TYPE_CHECKING:
    from unspool.settings.data import SeriesData

#: Of many series, so many are looked at for season and lookback.
LOOKED_AT = 7


@dataclass(frozen=True)
class Terms:
    """What is fitted on the training data, and is the same for all other data."""

    time: str | None
    series: str | None  # the column with the series that a row belongs to
    targets: tuple[str, ...]
    step: str  # of time, such as "1 month"
    horizon: int
    season: int
    lookback: int
    scales: Mapping[str, Scale]  # of the columns of each series
    units: Mapping[str, Floats]  # the mean change of each target of a series over a season: the unit of MASE
    why: Mapping[str, str] = field(default_factory=dict, compare=False)  # horizon and lookback are what they are

    @classmethod
    def find(cls, series: Sequence[Series], data: SeriesData, ends: Sequence[int], horizon: Steps) -> Self:
        """Fit them.

        Args:
            series: The series.
            data: The settings; season and lookback are guessed where they are not given.
            ends: For each series, the step up to which, and without which, it may be seen.
            horizon: Steps to forecast.
        """
        short = int(np.argmin(ends))
        season = _choose_season(series, data, ends, horizon.steps)
        if season >= ends[short]:
            problem = f"is not less than the {ends[short]} training steps of {series[short].name!r}"
            raise ArgumentError.of("season", season, problem, "Give less, or more data")
        lookback = _choose_lookback(series, data, ends, season, horizon.steps)
        seen = ((one.name, one.values[:end]) for one, end in zip(series, ends, strict=True))
        units = ArrayTable.of((name, _season_change(name, values, season, data.target)) for name, values in seen)
        columns = data.time_column, data.series_column, data.target, str(series[0].axis)
        why = {"horizon": horizon.why, "lookback": lookback.why}
        return cls(*columns, horizon.steps, season, lookback.steps, fit_scales(series, ends), units, why)

    def dump(self) -> dict[str, Any]:
        """As JSON has it."""
        return {
            **{"time": self.time, "series": self.series, "targets": list(self.targets), "step": self.step},
            **{"horizon": self.horizon, "season": self.season, "lookback": self.lookback},
            **dump_tables(self.scales, self.units),
        }

    @classmethod
    def load(cls, document: Mapping[str, Any]) -> Self:
        """What `dump` gave."""
        try:
            targets = tuple(saved.read_names(document, "targets"))
            scales, units = load_tables(document, len(targets))
            time, series = saved.read_name(document, "time"), saved.read_name(document, "series")
            columns = time, series, targets, str(document["step"])
            horizon, season, lookback = (saved.read_count(document, name) for name in ("horizon", "season", "lookback"))
            _check_units(units, scales, len(targets))
            return cls(*columns, horizon, season, lookback, scales, units)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            problem = "the run's vocabulary.json does not say how to read series"
            raise DataError(f"{problem}: {error!r}. Train again.") from error


def _check_units(units: Mapping[str, Floats], scales: Mapping[str, Scale], targets: int) -> None:
    """Every series has a scale, and a positive unit for each target."""
    if any(one.shape != (targets,) or not (one > 0).all() for one in units.values()):
        raise ValueError(f"{targets} targets, and units of another number")
    if units.keys() != scales.keys():
        raise ValueError("units and scales of different series")


@dataclass(frozen=True)
class ForecastPart:
    """Origins of forecasts, each a series and the first step to predict."""

    series: Sequence[Series]
    scaled: Sequence[Series]
    pairs: Pairs
    origins: Origins | None  # None where the future is not known
    terms: Terms

    @property
    def horizon(self) -> int:
        """The steps of a forecast."""
        return self.terms.horizon

    @property
    def lengths(self) -> Indices:
        return np.broadcast_to(np.int64(self.terms.lookback), len(self.pairs))  # one number in memory

    @property
    def counts(self) -> Indices:
        return np.broadcast_to(np.int64(1), len(self.pairs))

    def batch(self, indices: Indices) -> Batch:
        pairs = self.pairs[indices]
        if self.origins is None:
            seen = [inputs_at(self.scaled[one], at, self.terms.lookback, self.horizon) for one, at in pairs]
            past, future = (np.stack([one[place] for one in seen], axis=1) for place in (0, 1))
            target = None
        else:
            found = self.origins.batch(pairs)
            past, future, target = found.past, found.future, _single(found.target)
        units = self.units(indices)
        deviations = np.stack([self._scale(one).deviation for one in pairs[:, 0]])
        window = Window(_single(past), _single(future), _single(units / deviations[:, : units.shape[1]]))
        return Batch(window, self.lengths[indices], target, len(indices))

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
        return np.stack([self.terms.units[self.series[one].name] for one in self.pairs[indices][:, 0]])

    def unscale(self, index: int, prediction: Floats) -> Floats:
        """A prediction (horizon, targets, quantiles) in the units of its series."""
        scale = self._scale(self.pairs[index][0])
        found: Floats = np.moveaxis(scale.undo(np.moveaxis(prediction, -1, 0)), 0, -1)
        return found

    def of_some(self, most: int) -> ForecastPart:
        """The same, or, of more series than `most`, that of as many, from the first to the last."""
        if len(self.series) <= most or self.origins is None:
            return self
        places = np.unique(np.linspace(0, len(self.series) - 1, most).round().astype(int)).tolist()
        series, scaled = ([every[place] for place in places] for every in (self.series, self.scaled))
        counts = np.diff(self.pairs.starts)[places]
        origins = replace(self.origins, series=scaled)
        return ForecastPart(series, scaled, Pairs.of(self.pairs.first[places], counts), origins, self.terms)

    def cut(self, most: int) -> Iterator[Indices]:
        """All examples, about `most` at a time, those of a series together."""
        starts = self.pairs.starts
        first = 0
        while first < len(self.series):
            last = max(int(np.searchsorted(starts, starts[first] + most, "right")) - 1, first + 1)
            yield np.arange(starts[first], starts[last])
            first = last

    def _scale(self, number: int) -> Scale:
        return find_scale(self.terms.scales, self.series[number].name)


def longest_lookback(end: int, horizon: int) -> int:
    """The most steps that a forecast may read, such that half of the training part is left to forecast from."""
    return max((end - horizon) // 2, 1)


def choose_horizon(series: Sequence[Series], data: SeriesData) -> Steps:
    """The steps to forecast: as given, or by the season that the series have before the last of them are held out."""
    if data.horizon is not None:
        return Steps(data.horizon, "")
    lengths = series_lengths(series)
    shortest = int(lengths.min())
    held_out = sum(held_out_steps(data, shortest))
    ends = np.maximum(lengths - held_out, 1).tolist()
    return guess_horizon(data.season or _common_season(series, ends), shortest)


def held_out_steps(data: SeriesData, shortest: int) -> tuple[int, int]:
    """The steps of `validation` and of `test` in series of which the shortest has this many."""

    def count(given: float) -> int:
        if isinstance(given, int):
            return given
        return max(data.horizon or 1, round(given * shortest)) if given else 0

    return count(data.validation), count(data.test)


def _choose_season(series: Sequence[Series], data: SeriesData, ends: Sequence[int], horizon: int) -> int:
    """The season of the training parts; 1 if it is longer than a lookback can be."""
    if data.season is not None:
        return data.season
    season = _common_season(series, ends)
    most = longest_lookback(min(ends), horizon)
    return season if season <= min(most, data.lookback or most) else 1


def _choose_lookback(
    series: Sequence[Series], data: SeriesData, ends: Sequence[int], season: int, horizon: int
) -> Steps:
    if data.lookback is not None:
        return Steps(data.lookback, "")
    order = max(guess_order(one.values[:end]) for one, end in _some(series, ends))
    return guess_lookback(season, order, horizon, longest_lookback(min(ends), horizon))


def _common_season(series: Sequence[Series], ends: Sequence[int]) -> int:
    """The season that most of some series have."""
    seasons = [guess_season(one.values[:end], one.axis) for one, end in _some(series, ends)]
    return max(sorted(seasons), key=seasons.count)


def _some(series: Sequence[Series], ends: Sequence[int]) -> list[tuple[Series, int]]:
    """Some of many series, from the first to the last, with their ends."""
    places = np.unique(np.linspace(0, len(series) - 1, LOOKED_AT).round().astype(int)).tolist()
    return [(series[place], ends[place]) for place in places]


def _single(values: ArrayLike) -> NDArray[np.float32]:
    return np.asarray(values, np.float32)


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
    for name in find_twins(series)[:1]:
        raise DataError(f"two series are called {name!r}. Give each a name of its own.")
    for one in series:
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
