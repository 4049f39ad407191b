"""Columns by name: well-known ones in any case, the only one that is left, and those that must be named."""

from __future__ import annotations

from pathlib import Path

import pytest

from unspool.data.columns import LABEL_NAMES, TIME_NAMES, find_column, guess_column, is_code
from unspool.data.tables import Table, read_table
from unspool.errors import DataError


def table_of(folder: Path, header: str) -> Table:
    file = folder / "t.csv"
    file.write_text(f"{header}\n{','.join('x' for _ in header.split(','))}\n", encoding="utf-8")
    return read_table(file)


def test_the_first_of_the_names_counts() -> None:
    assert find_column(["Week", "DATE", "y"], TIME_NAMES) == "DATE"
    assert find_column(["y", "Label"], LABEL_NAMES) == "Label"
    assert find_column(["a", "b"], TIME_NAMES) is None


def test_a_column_is_guessed_by_its_name_or_as_the_only_one_left(tmp_path: Path) -> None:
    table = table_of(tmp_path, "Day,price,Label")
    assert guess_column(table, TIME_NAMES, "the times", "time_column") == "Day"
    assert guess_column(table, ("value",), "the values", "target", ["Day", "Label"]) == "price"
    with pytest.raises(
        DataError, match="'Day', 'price', 'Label': which has the values is not clear. Name it with `target`"
    ):
        guess_column(table, ("value",), "the values", "target", ["Day"])
    with pytest.raises(DataError, match="is not clear"):  # a column that is taken is not guessed by its name
        guess_column(table, TIME_NAMES, "the times", "time_column", ["Day"])


def test_names_of_kinds_and_of_times() -> None:
    assert all(map(is_code, ("is_holiday", "Promo", "day_of_week", "hour", "Month", "weather_type")))
    assert not any(map(is_code, ("sales_per_day", "price", "hourly load", "")))
