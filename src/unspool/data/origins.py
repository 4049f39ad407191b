"""Origins: where forecasts start, which are for training, validation and test, and batches of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from unspool.data.corpus import PARTS
from unspool.data.series import Floats, Series
from unspool.data.stored_series import series_lengths
from unspool.errors import ArgumentError, DataError, UnknownNameError


@dataclass(frozen=True)
class ForecastBatch:
    """Several origins, time first."""

    past: Floats  # (lookback, batch, targets + past and future covariates)
    future: Floats  # (horizon, batch, future covariates)
    target: Floats  # (horizon, batch, targets)


@dataclass(frozen=True)
class Pairs:
    """(series, origin) pairs, series by series, as rows of an array that is not kept: there may be millions.

    Example:
        Pairs.of(np.array([5, 7]), np.array([2, 1]))[np.arange(3)]  # [[0, 5], [0, 6], [1, 7]]
    """

    first: NDArray[np.int64]  # the first origin of each series
    starts: NDArray[np.int64]  # the first row of each series, and the number of all rows

    @classmethod
    def of(cls, first: NDArray[np.int64], counts: NDArray[np.int64]) -> Self:
        """From the first origin of each series, and how many follow each other from there."""
        return cls(first, np.concatenate([[0], np.cumsum(counts)]).astype(np.int64))

    def __len__(self) -> int:
        return int(self.starts[-1])

    def __getitem__(self, rows: int | slice | NDArray[np.int64]) -> NDArray[np.int64]:
        """One row, or some, as an array."""
        chosen = np.arange(*rows.indices(len(self))) if isinstance(rows, slice) else np.asarray(rows, np.int64)
        if chosen.size and not 0 <= chosen.min() <= chosen.max() < len(self):
            raise IndexError(f"a row is not one of {len(self)}")  # ends `for` over the rows
        owners = np.searchsorted(self.starts, chosen, "right") - 1
        return np.stack([owners, self.first[owners] + chosen - self.starts[owners]], axis=-1)

    def rows_of(self, number: int) -> NDArray[np.int64]:
        """The rows of one series."""
        return np.arange(self.starts[number], self.starts[number + 1])


@dataclass(frozen=True)
class Origins:
    """Rolling origins: origin o sees steps o − lookback … o − 1 and predicts steps o … o + horizon − 1.

    The last `test` steps of each series are for test, the `validation` steps before them for validation, the others
    for training. The steps that an origin predicts lie within one part; those that it sees may lie in parts before it.
    """

    series: Sequence[Series]
    lookback: int
    horizon: int
    validation: int = 0
    test: int = 0

    def __post_init__(self) -> None:
        for name in ("lookback", "horizon"):
            if getattr(self, name) < 1:
                raise ArgumentError.of(name, getattr(self, name), "is not a positive number", "Give 1 or more")
        for name in ("validation", "test"):
            steps = getattr(self, name)
            if steps != 0 and steps < self.horizon:
                remedy = "Give 0, or as many steps as the horizon has"
                raise ArgumentError.of(name, steps, f"is less than the horizon ({self.horizon})", remedy)
        self._refuse_short()

    def _refuse_short(self) -> None:
        """Refuse series that have too few steps for all parts."""
        needed = self.lookback + self.horizon + self.validation + self.test
        short = np.flatnonzero(series_lengths(self.series) < needed)
        if len(short):
            first = self.series[int(short[0])]
            others = f", as are {len(short) - 1} others" if len(short) > 1 else ""
            raise DataError(
                f"the series {first.name!r} is too short{others}: it has {len(first)} steps, and lookback "
                f"{self.lookback}, horizon {self.horizon}, validation {self.validation} and test {self.test} need "
                f"{needed}. Give more data, leave the series out, or make one of these smaller."
            )

    def ends(self) -> list[int]:
        """For each series the step where its training part ends."""
        found: list[int] = (series_lengths(self.series) - self.validation - self.test).tolist()
        return found

    def pairs(self, part: str) -> Pairs:
        """The (series, origin) pairs of "training", "validation" or "test"; series are counted from 0."""
        if part not in PARTS:
            raise UnknownNameError.among("part", part, PARTS)
        ends = np.array(self.ends(), np.int64)
        tests = ends + self.validation
        parts = ((np.full_like(ends, self.lookback), ends), (ends, tests), (tests, tests + self.test))
        first, last = parts[PARTS.index(part)]
        return Pairs.of(first, np.maximum(last - self.horizon + 1 - first, 0))

    def batch(self, pairs: NDArray[np.int64]) -> ForecastBatch:
        """The arrays of some pairs, one or more."""
        if not len(pairs):
            raise ArgumentError("`pairs` has no origin in it. Give a part of what `pairs` returns.")
        for number, origin in pairs:
            self._check_pair(int(number), int(origin))
        seen = [inputs_at(self.series[number], origin, self.lookback, self.horizon) for number, origin in pairs]
        target = [self.series[number].values[origin : origin + self.horizon] for number, origin in pairs]
        past, future = ([one[place] for one in seen] for place in (0, 1))
        return ForecastBatch(np.stack(past, axis=1), np.stack(future, axis=1), np.stack(target, axis=1))

    def _check_pair(self, number: int, origin: int) -> None:
        if not 0 <= number < len(self.series) or origin + self.horizon > len(self.series[number]):
            raise ArgumentError.of("pairs", (number, origin), "has no target", "Take it from `pairs`")


def inputs_at(series: Series, origin: int, lookback: int, horizon: int) -> tuple[Floats, Floats]:
    """The input of one forecast.

    Args:
        series: The series.
        origin: The first step to predict; after the last value, `len(series)`, the unknown future starts.
        lookback: Steps of the past.
        horizon: Steps to predict.

    Returns:
        The past (lookback, ·) and the covariates of the future (horizon, ·).
    """
    if not lookback <= origin <= len(series):
        raise DataError(
            f"a forecast of {series.name!r} from step {origin} needs {lookback} steps before it, and the series has "
            f"{len(series)}. Give more of its past."
        )
    future = series.future_covariates[origin : origin + horizon]
    if series.future_covariates.shape[1] and len(future) < horizon:
        raise DataError(
            f"the `future_covariates` of {series.name!r} end {horizon - len(future)} steps before the forecast does. "
            "Add rows with stamps and covariates and with empty targets, or reduce `horizon`."
        )
    return series.seen(origin - lookback, origin), future if future.size else np.empty((horizon, 0))
