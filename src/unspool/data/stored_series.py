"""Stored series: those of many files in one mapped file, made once with the memory of one input file at a time."""

from __future__ import annotations

import json
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unspool.data.cache import made_once
from unspool.data.on_demand import OnDemand
from unspool.data.series import Floats, Series
from unspool.data.times import TimeAxis
from unspool.errors import DataError

#: Changes when what is in the folder of stored series changes its meaning.
FORMAT = 1
VALUES, MOMENTS, INDEX, FACTS = "values", "moments", "index", "facts.json"


@dataclass(frozen=True)
class _Layout:
    """What all series have in common."""

    axis: TimeAxis
    kind: str  # of moments: the name of a type of numbers
    widths: tuple[int, int, int]  # columns of values, past covariates and future covariates


class StoredSeries(OnDemand[Series]):
    """Series that are read from mapped files when they are asked for; only their names and lengths are in memory.

    Args:
        folder: What `store` wrote.

    Example:
        series = store_series(key, (read(file) for file in files))
        series[99_999].values[-12:]
    """

    def __init__(self, folder: Path) -> None:
        facts = json.loads((folder / FACTS).read_text(encoding="utf-8"))
        self._layout = _Layout(TimeAxis(**facts["axis"]), facts["kind"], tuple(facts["widths"]))
        self.names: list[str] = facts["names"]
        index = np.fromfile(folder / INDEX, np.int64).reshape(-1, 2)
        self.lengths: NDArray[np.int64] = index[:, 0].copy()  # steps with values, without their future
        self._starts = np.concatenate([[0], np.cumsum(index[:, 1])])
        self._values = _map(folder / VALUES, np.float64, sum(self._layout.widths))
        self._moments = _map(folder / MOMENTS, self._layout.kind, 1)[:, 0]

    def __len__(self) -> int:
        return len(self.names)

    def make(self, number: int) -> Series:
        first, last = self._starts[number], self._starts[number + 1]
        rows, steps = self._values[first:last], self.lengths[number]
        targets, past, _ = self._layout.widths
        values, future = rows[:steps, :targets], rows[:, targets + past :]
        moments = self._moments[first:last]
        return Series(self.names[number], self._layout.axis, moments, values, future, rows[:steps, targets:][:, :past])


def _map(path: Path, kind: Any, width: int) -> NDArray[Any]:
    """The rows of a file; only the pages in use are in memory."""
    if path.stat().st_size == 0:
        return np.empty((0, width), kind)
    # a plain array: slices of a memmap are objects of Python with a dict each
    return np.asarray(np.memmap(path, kind, "r").reshape(-1, width) if width else np.empty((0, 0), kind))


def store_series(key: str, shards: Callable[[], Iterable[Sequence[Series]]]) -> StoredSeries:
    """The series of many files, from the cache where they were stored before.

    A series may be in several files, each of which then has some of its steps.

    Args:
        key: The same only if the data is.
        shards: Gives the series of one file after the other.

    Raises:
        DataError: The files do not fit together.
    """
    return made_once("series", f"{FORMAT}-{key}", lambda folder: _store(folder, shards()), StoredSeries)


def _store(folder: Path, shards: Iterable[Sequence[Series]]) -> None:
    layout: _Layout | None = None
    names, longest, segments = dict[str, int](), 0, array("q")  # owner, steps and rows of each segment
    with ExitStack() as stack:
        streams = [stack.enter_context((folder / name).open("wb")) for name in (VALUES, MOMENTS)]
        for shard in shards:
            for one in shard:
                found = _describe(one)
                if layout is None or (len(one.moments) > longest and found.kind == layout.kind):
                    layout, longest = found, len(one.moments)
                _check_layout(one, found, layout)
                segments.extend((names.setdefault(one.name, len(names)), len(one), len(one.moments)))
                for stream, rows in zip(streams, (_join(one), one.moments), strict=True):
                    stream.write(rows.tobytes())
    if layout is None:
        raise DataError("there are no series. Give at least one.")
    index = np.array(segments, np.int64).reshape(-1, 3)
    if len(names) < len(index):
        index = _merge(folder, index, layout, list(names))
    index[:, 1:].tofile(folder / INDEX)
    facts = {"axis": asdict(layout.axis), "kind": layout.kind, "widths": layout.widths, "names": list(names)}
    (folder / FACTS).write_text(json.dumps(facts), encoding="utf-8")


def _describe(one: Series) -> _Layout:
    widths = one.values.shape[1], one.past_covariates.shape[1], one.future_covariates.shape[1]
    return _Layout(one.axis, one.moments.dtype.name, widths)


def _check_layout(one: Series, found: _Layout, first: _Layout) -> None:
    if (found.kind, found.axis.form, found.widths) != (first.kind, first.axis.form, first.widths):
        raise DataError(
            f"the times of {one.name!r} are written in another way than those of other files. Write them alike."
        )


def _join(one: Series) -> Floats:
    """All columns side by side; in rows of the future, values and past covariates are missing."""
    beyond = len(one.moments) - len(one)
    known = np.concatenate([one.values, one.past_covariates], axis=1)
    return np.concatenate([np.pad(known, ((0, beyond), (0, 0)), constant_values=np.nan), one.future_covariates], axis=1)


def _merge(folder: Path, index: NDArray[np.int64], layout: _Layout, names: Sequence[str]) -> NDArray[np.int64]:
    """Put the segments of each series one after the other; they are copied from the mapped files to new ones."""
    starts = np.concatenate([[0], np.cumsum(index[:, 2])[:-1]])
    values = _map(folder / VALUES, np.float64, sum(layout.widths))
    moments = _map(folder / MOMENTS, layout.kind, 1)[:, 0]
    order = np.lexsort((moments[starts], index[:, 0]))
    merged = np.zeros((len(names), 3), np.int64)
    with ExitStack() as stack:
        streams = [stack.enter_context((folder / f"{name}-merged").open("wb")) for name in (VALUES, MOMENTS)]
        last: tuple[int, int] | None = None  # the series, and the last row, of the segment before
        for place in order.tolist():
            owner, steps, rows = index[place].tolist()
            first = int(starts[place])
            if last is not None and last[0] == owner:
                _check_following(names[owner], moments[[last[1], first]], merged[owner], layout.axis)
            merged[owner] = owner, merged[owner, 1] + steps, merged[owner, 2] + rows
            last = owner, first + rows - 1
            for stream, source in zip(streams, (values, moments), strict=True):
                stream.write(source[first : first + rows].tobytes())
    for name in (VALUES, MOMENTS):
        (folder / f"{name}-merged").replace(folder / name)
    return merged


def _check_following(name: str, both: NDArray[Any], before: NDArray[np.int64], axis: TimeAxis) -> None:
    """Refuse a segment of a series that does not start one step after the segment before it, whose values are all."""
    if before[1] != before[2]:
        raise DataError(f"the series {name!r} has rows without targets in the middle. Fill them in.")
    if both[0] >= both[1] or len(axis.breaks(both)):
        stamps = " and ".join(axis.spell(moment.item()) for moment in both)
        raise DataError(
            f"the series {name!r} is in several files, of which one ends and the next starts at {stamps}, and a step "
            f"is {axis}. Fill in the rows that are missing, and keep one of each."
        )


def series_lengths(series: Sequence[Series]) -> NDArray[np.int64]:
    """The steps of each series, without reading them where they are stored."""
    known = getattr(series, "lengths", None)
    return np.array([len(one) for one in series], np.int64) if known is None else known


def find_twins(series: Sequence[Series]) -> list[str]:
    """Names that several series have; stored ones have each once."""
    names = getattr(series, "names", None)
    counted = Counter(one.name for one in series) if names is None else Counter()
    return [name for name, count in counted.items() if count > 1]
