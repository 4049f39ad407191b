"""Pairs of texts to translate: reversed words, and dates in two notations."""

from __future__ import annotations

import datetime

import numpy as np

from unspool.lab.data.sizes import check_sizes

Pairs = list[tuple[str, str]]

#: The days that `dates` draws from: two centuries.
FIRST_DAY, LAST_DAY = datetime.date(1900, 1, 1), datetime.date(2099, 12, 31)
MONTHS = (
    *("January", "February", "March", "April", "May", "June", "July"),
    *("August", "September", "October", "November", "December"),
)
DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


def reversal(count: int, longest: int = 8, letters: str = "abcdefgh", seed: int = 0) -> Pairs:
    """Random words, and the same words backward.

    Args:
        count: pairs.
        longest: the largest number of letters of a word; the smallest is 1.
        letters: what words are made of.
        seed: of the random numbers.

    Returns:
        (word, word backward).

    Example:
        >>> word, backward = reversal(1)[0]
        >>> word == backward[::-1]
        True
    """
    check_sizes(count=count)
    chance = np.random.default_rng(seed)
    alphabet = np.array(list(letters))
    lengths = chance.integers(1, longest + 1, count)
    words = ("".join(alphabet[chance.integers(0, len(alphabet), length)]) for length in lengths)
    return [(word, word[::-1]) for word in words]


def dates(count: int, seed: int = 0) -> Pairs:
    """Dates as people write them, in five notations, and as ISO 8601 has them.

    Args:
        count: pairs.
        seed: of the random numbers.

    Returns:
        (a date of 1900 to 2099 in one of the notations, such as "Tuesday, 3 March 1998"; "1998-03-03").

    Example:
        >>> written, iso = dates(1)[0]
        >>> len(iso)
        10
    """
    check_sizes(count=count)
    chance = np.random.default_rng(seed)
    days = chance.integers(FIRST_DAY.toordinal(), LAST_DAY.toordinal() + 1, count)
    notations = chance.integers(0, 5, count)
    found = (datetime.date.fromordinal(int(day)) for day in days)
    return [(write_date(day, int(kind)), day.isoformat()) for day, kind in zip(found, notations, strict=True)]


def write_date(day: datetime.date, notation: int) -> str:
    """A date in one of five notations, in English whatever the locale is."""
    month = MONTHS[day.month - 1]
    return (
        f"{DAYS[day.weekday()]}, {day.day} {month} {day.year}",
        f"{day.day} {month[:3]} {day.year}",
        f"{month} {day.day}, {day.year}",
        f"{day.day}.{day.month}.{day.year}",
        f"{day.month}/{day.day}/{day.year % 100:02d} ({day.year // 100})",
    )[notation]
