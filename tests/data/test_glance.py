"""Glance: what tasks see of a file before it is read."""

from __future__ import annotations

from pathlib import Path

import pytest

from unspool.data.columns import TIME_NAMES
from unspool.data.glance import MEASURED, Glance
from unspool.data.text import LINES
from unspool.errors import DataError


def glance_at(path: Path, text: str) -> Glance:
    path.write_text(text, encoding="utf-8")
    return Glance(path, {})


def test_a_text_has_lines_and_no_columns(tmp_path: Path) -> None:
    found = glance_at(tmp_path / "Book.TXT", "".join(f"line {number}\n" for number in range(LINES + 5)))
    assert (found.name, found.suffix, found.is_table, found.columns) == ("Book.TXT", ".txt", False, [])
    assert found.lines == [f"line {number}\n" for number in range(LINES)]


def test_a_table_has_columns(tmp_path: Path) -> None:
    found = glance_at(tmp_path / "a.CSV", "Month,sales\n2001-01,3\n")
    assert found.is_table
    assert (found.columns, found.find(TIME_NAMES), found.find(("price",))) == (["Month", "sales"], "Month", None)


def test_only_tsv_may_be_without_a_header(tmp_path: Path) -> None:
    assert glance_at(tmp_path / "a.tsv", "1\t2\n3\t4\n").columns == ["1", "2"]
    with pytest.raises(DataError, match="may be data or a column's name"):
        _ = glance_at(tmp_path / "a.csv", "1,2\n3,4\n").columns


@pytest.mark.parametrize(
    ("values", "measured"),
    [
        ([str(number) for number in range(MEASURED)], True),
        ([str(number % (MEASURED - 1)) for number in range(100)], False),
        (["1", "2.5"], True),
        (["1", "2", "x"], False),
    ],
    ids=["many", "few", "decimals", "words"],
)
def test_measurements_are_decimals_or_many_different_numbers(tmp_path: Path, values: list[str], measured: bool) -> None:
    assert glance_at(tmp_path / "a.csv", "y\n" + "\n".join(values) + "\n").is_measured("y") is measured
