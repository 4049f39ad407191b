"""Numbers and scales of many series by name, in one array: a hundred thousand of them need a few megabytes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Self

import numpy as np

from unspool.data.scale import Floats, Scale
from unspool.errors import DataError

#: Names above which a document has columns of numbers, and not an entry for each name.
MANY = 1000


class ArrayTable(Mapping[str, Floats]):
    """A row of numbers for each name.

    Args:
        places: Name → row.
        rows: The numbers (names, width).

    Example:
        ArrayTable.of([("a", np.array([1.0])), ("b", np.array([2.0]))])["b"]  # [2.0]
    """

    def __init__(self, places: Mapping[str, int], rows: Floats) -> None:
        self.places, self.rows = places, rows

    @classmethod
    def of(cls, pairs: Iterable[tuple[str, Floats]]) -> Self:
        """From names and their numbers, as many for each; the last of a name counts."""
        places: dict[str, int] = {}
        found: list[float] = []
        width = 0
        for name, row in pairs:
            place = places.setdefault(name, len(places))
            width = len(row)
            found[place * width : (place + 1) * width] = row.tolist()
        return cls(places, np.array(found, np.float64).reshape(len(places), width))

    def __getitem__(self, name: str) -> Floats:
        found: Floats = self.rows[self.places[name]]
        return found

    def __contains__(self, name: object) -> bool:
        return name in self.places

    def __iter__(self) -> Iterator[str]:
        return iter(self.places)

    def __len__(self) -> int:
        return len(self.places)


class ScaleTable(Mapping[str, Scale]):
    """A scale for each name.

    Args:
        table: Of each name the means and then the deviations.
    """

    def __init__(self, table: ArrayTable) -> None:
        self.table = table

    @classmethod
    def of(cls, pairs: Iterable[tuple[str, Scale]]) -> Self:
        """From names and their scales."""
        return cls(ArrayTable.of((name, np.concatenate([one.mean, one.deviation])) for name, one in pairs))

    def __getitem__(self, name: str) -> Scale:
        row = self.table[name]
        return Scale(row[: len(row) // 2], row[len(row) // 2 :])

    def __contains__(self, name: object) -> bool:
        return name in self.table

    def __iter__(self) -> Iterator[str]:
        return iter(self.table)

    def __len__(self) -> int:
        return len(self.table)


def dump_tables(scales: Mapping[str, Scale], units: Mapping[str, Floats]) -> dict[str, Any]:
    """The scales and units of series as JSON has them: of many series, columns of numbers."""
    if len(scales) <= MANY or not isinstance(scales, ScaleTable) or not isinstance(units, ArrayTable):
        return {
            "scales": {name: one.dump() for name, one in scales.items()},
            "units": {name: one.tolist() for name, one in units.items()},
        }
    rows = np.concatenate([scales.table.rows, units.rows], axis=1)  # both have the order of the series
    return {"series_names": list(scales), "series_numbers": [column.tolist() for column in rows.T]}


def load_tables(document: Mapping[str, Any], targets: int) -> tuple[Mapping[str, Scale], Mapping[str, Floats]]:
    """What `dump_tables` gave: scales, and `targets` units each."""
    if "series_names" not in document:
        scales = {str(name): Scale.load(one) for name, one in document["scales"].items()}
        units = {str(name): np.array(one, np.float64) for name, one in document["units"].items()}
        return scales, units
    names = document["series_names"]
    rows = np.array(document["series_numbers"], np.float64).T
    if rows.ndim != 2 or len(rows) != len(names) or (rows.shape[1] - targets) % 2 or rows.shape[1] < targets + 2:
        raise DataError("the numbers of series are not as many as their names need. Take the run's own.")
    places = {str(name): place for place, name in enumerate(names)}
    width = rows.shape[1] - targets
    Scale.load({"mean": rows[:, : width // 2].ravel(), "deviation": rows[:, width // 2 : width].ravel()})  # checks them
    return ScaleTable(ArrayTable(places, rows[:, :width])), ArrayTable(places, rows[:, width:])
