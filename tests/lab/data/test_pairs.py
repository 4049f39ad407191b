"""Pairs of texts against what defines them."""

from __future__ import annotations

import calendar
import datetime
import re

from unspool.lab.data import dates, reversal

MONTHS = {calendar.month_abbr[month]: month for month in range(1, 13)}


def read(written: str) -> datetime.date:
    """A date in any of the notations, read by its form alone."""
    numbers = [int(number) for number in re.findall(r"\d+", written)]
    month = re.search("|".join(MONTHS), written.partition(", ")[2] if "day," in written else written)
    if month is not None:
        return datetime.date(numbers[1], MONTHS[month[0]], numbers[0])
    if "/" in written:
        return datetime.date(numbers[3] * 100 + numbers[2], numbers[0], numbers[1])
    return datetime.date(numbers[2], numbers[1], numbers[0])


def test_words_are_reversed() -> None:
    pairs = reversal(300, longest=5, letters="xyz", seed=3)
    assert all(word == "".join(reversed(backward)) for word, backward in pairs)
    assert {len(word) for word, _ in pairs} == {1, 2, 3, 4, 5}
    assert set("".join(word for word, _ in pairs)) == set("xyz")


def test_dates_are_the_same_day() -> None:
    pairs = dates(500)
    for written, iso in pairs:
        day = datetime.date.fromisoformat(iso)
        assert read(written) == day, written
        weekday = re.search(r"(\w+day),", written)
        assert weekday is None or day.strftime("%A") == weekday[1]
    assert len({re.sub(r"\w", "", written) for written, _ in pairs}) == 5


def test_a_seed_repeats_the_pairs() -> None:
    assert dates(20, seed=1) == dates(20, seed=1) != dates(20, seed=2)
    assert reversal(20, seed=1) == reversal(20, seed=1) != reversal(20, seed=2)
