"""Forecasting on many files: their series are stored once, and only what a batch needs is read."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from unspool.data.on_demand import OnDemand
from unspool.data.scale import Scale
from unspool.data.series import Series, standardize
from unspool.data.sources import find_items
from unspool.data.stored_series import StoredSeries, store_series
from unspool.data.text import Source
from unspool.errors import DataError
from unspool.tasks.forecast_columns import name_columns, read_named, read_series_table

if TYPE_CHECKING:
    from unspool.settings.data import SeriesData

#: Bytes of several files together above which their series are stored and not kept in memory.
LARGE = 32 << 20


def is_large(source: Source) -> bool:
    """Whether data is of several files that are read one by one, so that memory does not grow with their number."""
    paths = [item.path for item in find_items(source)]
    return len(paths) > 1 and sum(path.stat().st_size for path in paths if path.is_file()) > LARGE


def store_shards(data: SeriesData, digest: str) -> tuple[StoredSeries, SeriesData]:
    """The series of several files, and the settings with columns that are named.

    Args:
        data: The settings; columns that they do not name are guessed from the first file and the last.
        digest: Of all files.

    Returns:
        Series that are read when they are asked for, and the settings.
    """
    paths = [item.path for item in find_items(data.files)]
    named = name_columns(*read_series_table([paths[0], paths[-1]], data))  # each file may be one series
    columns = [named.time_column, named.series_column, *named.target]
    covariates = [*named.future_covariates, "", *named.past_covariates]
    key = hashlib.sha256(json.dumps([digest, columns, covariates]).encode()).hexdigest()[:32]
    return store_series(key, lambda: _read_each(paths, named)), named


def _read_each(paths: Sequence[Path], named: SeriesData) -> Iterator[list[Series]]:
    """The series of one file after the other."""
    for path in paths:
        try:
            yield read_named(*read_series_table(path, named))
        except DataError as error:
            shown = str(error)
            raise error if str(path) in shown else DataError(f"{path}: {shown}") from error


class StandardizedSeries(OnDemand[Series]):
    """Series that are standardized when they are asked for."""

    def __init__(self, series: StoredSeries, scales: Mapping[str, Scale]) -> None:
        self._series, self._scales = series, scales
        self.lengths, self.names = series.lengths, series.names

    def __len__(self) -> int:
        return len(self._series)

    def make(self, number: int) -> Series:
        return standardize(self._series[number], self._scales)


def standardize_all(series: Sequence[Series], scales: Mapping[str, Scale]) -> Sequence[Series]:
    """All series in deviations from their means; stored ones when they are asked for."""
    if isinstance(series, StoredSeries):
        return StandardizedSeries(series, scales)
    return [standardize(one, scales) for one in series]


class WeightedMean:
    """Means of several numbers by name, of which each part of the data has a weight.

    Example:
        mean = WeightedMean()
        mean.add({"loss": 1.0}, {"loss": 3})
        mean.values()  # {"loss": 1.0}
    """

    def __init__(self) -> None:
        self._sums: dict[str, float] = {}
        self._weights: dict[str, float] = {}

    def add(self, found: Mapping[str, float], weights: Mapping[str, float]) -> None:
        """Take in the means of a part."""
        for name, value in found.items():
            self._sums[name] = self._sums.get(name, 0.0) + value * weights[name]
            self._weights[name] = self._weights.get(name, 0.0) + weights[name]

    def values(self) -> dict[str, float]:
        """The means of all parts together."""
        return {name: total / self._weights[name] for name, total in self._sums.items()}
