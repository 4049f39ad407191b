"""Time stamps: dates, date-times, months, years or numbers as sortable numbers, and the axis they lie on."""

from __future__ import annotations

import re
import reprlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from unspool.data.stamps import read_stamps, read_unix, spell_stamp
from unspool.errors import DataError

Moments = NDArray[np.int64] | NDArray[np.float64]

NUMBER, YEAR = "number", "year"
HOUR = 3_600_000_000  # calendar stamps count microseconds
DAY = 24 * HOUR
#: Fraction of a step by which stamps may be off: clocks jitter, and decimals are rounded.
TOLERANCE = 0.01
#: Stamps of eight digits, such as 20240131; months, such as 2024-01; whole numbers; and years among these.
DIGITS, MONTH = re.compile(r"[0-9]{8}"), re.compile(r"[0-9]{4}-[0-9]{2}")
INTEGER, YEARS = re.compile(r"[+-]?[0-9]{1,18}"), re.compile(r"[12][0-9]{3}")
REMEDY = "Give dates such as 2024-01-31, date-times such as 2024-01-31T18:30, months such as 2024-01, years or numbers"


@dataclass(frozen=True)
class Times:
    """The stamps of a column.

    `moments` are microseconds since 1970 (UTC where the stamps have a zone) for dates and date-times, otherwise the
    numbers themselves. `form` says how they are written: a pattern of strftime, or "year", or "number".
    """

    moments: Moments
    form: str

    def spell(self, row: int) -> str:
        """A stamp as it would stand in the file."""
        return spell(self.moments[row], self.form)


@dataclass(frozen=True)
class TimeAxis:
    """A regular axis: one step is `count` units.

    A unit is "year", "month", "day", "hour" or "fixed": a microsecond of the calendar, or 1 where stamps are numbers.
    Months and years have no fixed length: their stamps lie `anchor` microseconds after the month's first moment, or,
    if `anchor` is negative, before the next one's. Days that a month does not have become its last day.
    """

    form: str
    unit: str
    count: int | float
    anchor: int = 0

    @classmethod
    def infer(cls, times: Times) -> Self:
        """The axis of ascending stamps, by the median of their distances."""
        moments, form = times.moments, times.form
        if len(moments) < 2:
            raise DataError(f"{len(moments)} stamp(s) have no step. Give a series of two or more.")
        step = _median(np.diff(moments))
        if step <= 0:
            raise DataError("the stamps do not ascend. Sort the rows by time.")
        if form in (YEAR, NUMBER):
            return cls(form, "year" if form == YEAR else "fixed", step)
        anchor = _anchor(np.asarray(moments, np.int64)) if step >= 28 * DAY else None
        if anchor is not None:
            months = _months(np.asarray(moments, np.int64))
            return cls._monthly(form, max(int(_median(np.diff(months))), 1), anchor)
        return cls._fixed(form, step)

    @classmethod
    def _fixed(cls, form: str, step: int) -> Self:
        """Steps of so many microseconds, in whole days or hours where they are."""
        for unit, length in (("day", DAY), ("hour", HOUR)):
            if step % length == 0:
                return cls(form, unit, step // length)
        return cls(form, "fixed", step)

    @classmethod
    def _monthly(cls, form: str, months: int, anchor: int) -> Self:
        """An axis of this many months per step; twelve of them are a year."""
        if months % 12 == 0:
            return cls(form, "year", months // 12, anchor)
        return cls(form, "month", months, anchor)

    def distances(self, moments: Moments) -> NDArray[np.float64]:
        """The number of steps from each stamp to the next; 1 where the axis is regular."""
        if not self._months:
            return np.diff(moments) / self._length
        whole = _months(np.asarray(moments, np.int64))
        off = (np.asarray(moments, np.int64) - self._stamps(whole)) / (28 * DAY)
        return np.diff(whole + off) / self._months

    def breaks(self, moments: Moments) -> NDArray[np.intp]:
        """The places of stamps that are not one step after the stamp before them."""
        return np.flatnonzero(np.abs(self.distances(moments) - 1) > TOLERANCE) + 1

    def after(self, last: int | float, steps: int) -> Moments:
        """The next stamps after `last`."""
        ahead = np.arange(1, steps + 1)
        if self._months:
            return self._stamps(_months(np.array([last], np.int64)) + ahead * self._months)
        return np.asarray(last + ahead * self._length, np.result_type(last, self.count))

    def spell(self, moment: int | float) -> str:
        """A stamp as it would stand in the file."""
        return spell(moment, self.form)

    def __str__(self) -> str:
        if self.unit == "fixed":
            return str(self.count) if self.form == NUMBER else _describe_length(self.count)
        return f"{self.count} {self.unit}{'' if self.count == 1 else 's'}"

    @property
    def _months(self) -> int:
        """The months of a step; 0 where steps have a fixed length."""
        if self.form in (NUMBER, YEAR):
            return 0
        return int(self.count) * {"year": 12, "month": 1}.get(self.unit, 0)

    @property
    def microseconds(self) -> int:
        """The length of a step; 0 where it is not fixed, or not known."""
        return 0 if self.form in (NUMBER, YEAR) or self._months else int(self._length)

    @property
    def _length(self) -> int | float:
        return self.count * {"day": DAY, "hour": HOUR}.get(self.unit, 1)

    def _stamps(self, months: NDArray[np.int64]) -> NDArray[np.int64]:
        """The stamps of months that are counted since 1970."""
        if self.anchor < 0:
            return _begins(months + 1) + self.anchor
        return np.minimum(_begins(months) + self.anchor, _begins(months + 1) - DAY + self.anchor % DAY)


def read_times(entries: Sequence[str], place: Callable[[int], str]) -> Times:
    """Read stamps: dates, date-times, months, years or numbers.

    Args:
        entries: The stamps, without spaces around them.
        place: The file and line of an entry, for error messages.

    Example:
        read_times(["2024-01", "2024-02"], str).form  # "%Y-%m"
    """
    if all(DIGITS.fullmatch(entry) and _calendar(entry) for entry in entries):
        return _dates(entries, "%Y%m%d", place)
    first = entries[0] if entries else "0"
    if MONTH.fullmatch(first):
        whole = [f"{entry}-01" if MONTH.fullmatch(entry) else "" for entry in entries]
        return _dates(whole, "%Y-%m", place, entries)
    if not _calendar(first):
        stamps = _written(entries, place)
        return _numbers(entries, place) if stamps is None else stamps
    if DIGITS.fullmatch(first):  # eight digits are a date only if all entries are
        return _numbers(entries, place)
    return _dates(entries, _pattern(max(entries, key=len)), place)


def _written(entries: Sequence[str], place: Callable[[int], str]) -> Times | None:
    """Stamps in other writings than ISO 8601; None if they are in none that is known."""
    try:
        found = read_stamps(entries)
    except DataError as error:
        raise DataError(f"{place(0)}: {error}") from error
    return None if found is None else Times(*found)


def _numbers(entries: Sequence[str], place: Callable[[int], str]) -> Times:
    """Stamps that are years or other numbers."""
    if all(INTEGER.fullmatch(entry) for entry in entries):
        return _whole_numbers(entries)
    numbers = np.array([_number(entry) for entry in entries])
    for row in np.flatnonzero(~(np.abs(numbers) < 1e15))[:1]:  # beyond it floats are too coarse to count steps
        raise DataError(f"{place(int(row))}: {reprlib.repr(entries[row])} is not a time. {REMEDY}.")
    return Times(numbers, NUMBER)


def _whole_numbers(entries: Sequence[str]) -> Times:
    numbers = np.array([int(entry) for entry in entries], np.int64)
    if (unix := read_unix(numbers)) is not None:
        return Times(*unix)
    years = all(YEARS.fullmatch(entry) for entry in entries)
    return Times(numbers, YEAR if years else NUMBER)


def spell(moment: int | float, form: str) -> str:
    """A stamp as text."""
    if form == NUMBER:
        return repr(float(f"{moment:.12g}")) if isinstance(moment, float) else str(moment)
    if form == YEAR:
        return str(int(moment))
    try:
        return spell_stamp(int(moment), form)
    except OverflowError as error:
        raise DataError("a stamp is beyond the year 9999. Forecast fewer steps.") from error


def _dates(
    entries: Sequence[str], form: str, place: Callable[[int], str], written: Sequence[str] | None = None
) -> Times:
    found = [_calendar(entry) for entry in entries]
    zoned = _has_zone(found[0])
    plain = []
    for row, moment in enumerate(found):
        if moment is None or _has_zone(moment) != zoned:
            raise _no_time(row, (written or entries)[row], place)
        plain.append(moment.astimezone(UTC).replace(tzinfo=None) if zoned else moment)
    return Times(np.array(plain, "datetime64[us]").astype(np.int64), form)


def _no_time(row: int, entry: str, place: Callable[[int], str]) -> DataError:
    problem = "is not a time as those before it are" if row else "is not a time"
    return DataError(f"{place(row)}: {reprlib.repr(entry)} {problem}. {REMEDY}.")


def _has_zone(moment: datetime | None) -> bool:
    return moment is not None and moment.tzinfo is not None


def _calendar(entry: str) -> datetime | None:
    try:
        found = datetime.fromisoformat(entry)
        if found.tzinfo is not None:
            found.astimezone(UTC)  # the first and the last day may have none there
    except (ValueError, OverflowError):
        return None
    return found


def _pattern(entry: str) -> str:
    """How an ISO stamp is written: its longest spelling, so that nothing of it is lost."""
    if len(entry) <= 10:
        return "%Y-%m-%d"
    clock = re.split(r"Z|[+-]", entry[11:])[0]
    time = "%H:%M" if len(clock) <= 5 else "%H:%M:%S" if "." not in clock else "%H:%M:%S.%f"
    zone = "Z" if _has_zone(_calendar(entry)) else ""
    return f"%Y-%m-%d{'T' if entry[10] == 'T' else ' '}{time}{zone}"


def _number(entry: str) -> float:
    try:
        return float(entry)
    except ValueError:
        return np.nan


def _median(distances: NDArray[Any]) -> Any:
    """The upper one of the two in the middle, where their number is even."""
    return np.sort(distances)[len(distances) // 2].item()


def _months(moments: NDArray[np.int64]) -> NDArray[np.int64]:
    return moments.astype("datetime64[us]").astype("datetime64[M]").astype(np.int64)


def _begins(months: NDArray[np.int64]) -> NDArray[np.int64]:
    return months.astype("datetime64[M]").astype("datetime64[us]").astype(np.int64)


def _anchor(moments: NDArray[np.int64]) -> int | None:
    """Where in the month more than half of the stamps lie, from its start or else from its end; None: nowhere."""
    months = _months(moments)
    for offsets in (moments - _begins(months + 1), moments - _begins(months)):
        places, counts = np.unique(offsets, return_counts=True)
        most = int(counts.argmax())
        at_the_end = places[most] < 0
        if 2 * counts[most] > len(moments) and (not at_the_end or places[most] >= -DAY):
            return int(places[most])
    return None


def _describe_length(microseconds: float) -> str:
    """A length of time in the largest unit that it is a multiple of: 30 minutes."""
    second = 1_000_000
    for unit, size in (("week", 604_800), ("day", 86_400), ("hour", 3_600), ("minute", 60), ("second", 1)):
        count, rest = divmod(microseconds, size * second)
        if count and not rest:
            return f"{count:g} {unit}{'' if count == 1 else 's'}"
    return f"{microseconds / second:g} seconds"
