"""Stamps beyond ISO 8601: how people write dates (31.01.2024, 1/31/24, Jan 2024, 2024Q1) and Unix times."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime, timedelta
from itertools import product

import numpy as np
from numpy.typing import NDArray

from unspool.errors import DataError

Integers = NDArray[np.int64]

#: Dates in which the day comes first, and the month; where both fit all stamps, the regular one is meant.
DATES = (
    *("%d.%m.%Y", "%d.%m.%y", "%d/%m/%Y", "%d/%m/%y", "%d-%m-%Y", "%m/%d/%Y", "%m/%d/%y", "%m-%d-%Y"),
    *("%Y/%m/%d", "%Y.%m.%d", "%Y-%m-%d", "%Y/%m", "%m/%Y", "%Y %b", "%b %Y", "%b-%Y", "%b-%y", "%B %Y", "%Y %B"),
    *("%d %b %Y", "%d-%b-%Y", "%d-%b-%y", "%b %d, %Y", "%d %B %Y", "%B %d, %Y"),
)
CLOCKS = ("", " %H:%M", " %H:%M:%S", " %H:%M:%S.%f", " %I:%M %p", " %I:%M:%S %p", " %H:%M UTC", " %H:%M:%S UTC", " %H")
QUARTERS = re.compile(r"([12][0-9]{3})[- ]?Q([1-4])")
QUARTER = "quarter"
#: Microseconds of a unit in which Unix times count, and the form of such stamps.
UNIX = {"unix seconds": 10**6, "unix milliseconds": 10**3, "unix microseconds": 1}
#: Unix times from 1973 to 2100, in seconds; numbers beyond are no times.
FIRST, LAST = 10**8, 41 * 10**8


def read_stamps(entries: Sequence[str]) -> tuple[Integers, str] | None:
    """Microseconds since 1970, and the form in which `spell_stamp` writes them; None where entries are no such stamps.

    Raises:
        DataError: Day and month cannot be told apart.

    Example:
        read_stamps(["31.01.2024", "01.02.2024"])[1]  # "%d.%m.%Y"
    """
    if not entries:
        return None
    if (quarters := _read_quarters(entries)) is not None:
        return quarters
    forms = [date + clock for date, clock in product(DATES, CLOCKS) if _parse(entries[0], date + clock)]
    read = {form: _parse_all(entries, form) for form in forms}
    return _choose({form: _moments(found) for form, found in read.items() if found is not None}, entries[0])


def _read_quarters(entries: Sequence[str]) -> tuple[Integers, str] | None:
    found = [match for entry in entries if (match := QUARTERS.fullmatch(entry))]
    if len(found) < len(entries):
        return None
    return _moments([datetime(int(one[1]), 3 * int(one[2]) - 2, 1) for one in found]), QUARTER


def read_unix(numbers: Integers) -> tuple[Integers, str] | None:
    """Unix times as microseconds, and their form; None where some number is none.

    Example:
        read_unix(np.array([1_700_000_000]))[1]  # "unix seconds"
    """
    for form, unit in UNIX.items():
        scale = 10**6 // unit
        if len(numbers) and FIRST * scale <= numbers.min() and numbers.max() < LAST * scale:
            return numbers * unit, form
    return None


def spell_stamp(moment: int, form: str) -> str:
    """A stamp as it would stand in the file."""
    if form in UNIX:
        return str(moment // UNIX[form])
    when = datetime(1970, 1, 1) + timedelta(microseconds=moment)
    return f"{when.year}Q{(when.month + 2) // 3}" if form == QUARTER else when.strftime(form)


def _parse(entry: str, form: str) -> datetime | None:
    try:
        return datetime.strptime(entry, form)
    except ValueError:
        return None


def _parse_all(entries: Sequence[str], form: str) -> list[datetime] | None:
    found: list[datetime] = []
    for entry in entries:
        one = _parse(entry, form)
        if one is None:
            return None
        found.append(one)
    return found


def _moments(found: Sequence[datetime]) -> Integers:
    return np.array(found, "datetime64[us]").astype(np.int64)


def _choose(read: dict[str, Integers], first: str) -> tuple[Integers, str] | None:
    """Of several readings the one in which more steps are of the same length."""
    if len({tuple(moments.tolist()) for moments in read.values()}) < 2:
        return next(((moments, form) for form, moments in read.items()), None)
    ordered = sorted(read, key=lambda form: _regularity(read[form]), reverse=True)
    best, second = ordered[:2]
    if _regularity(read[best]) == _regularity(read[second]):
        raise DataError(
            f"{first!r} may be {read[best][:1].astype('datetime64[us]')[0].item():%d %B %Y} or "
            f"{read[second][:1].astype('datetime64[us]')[0].item():%d %B %Y}. Write dates as 2024-01-31."
        )
    return read[best], best


def _regularity(moments: Integers) -> float:
    """The fraction of steps of the most frequent length, in days, or in months if these are more regular."""
    if len(moments) < 2:
        return 0.0
    months = moments.astype("datetime64[us]").astype("datetime64[M]").astype(np.int64)
    counts = [np.unique(np.diff(steps)[np.diff(steps) > 0], return_counts=True)[1] for steps in (moments, months)]
    return max((one.max() / (len(moments) - 1) for one in counts if len(one)), default=0.0)
