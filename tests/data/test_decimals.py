"""Numbers with decimal commas or separated thousands: what is clear is read, what is not is left alone."""

from __future__ import annotations

import polars as pl
import pytest

from unspool.data.decimals import read_decimals
from unspool.data.tables import read_table
from unspool.errors import DataError


@pytest.mark.parametrize(
    ("entries", "expected"),
    [
        (["1,5", "2", "-3,25"], ["1.5", "2", "-3.25"]),
        (["1.234,5", "1.000"], ["1234.5", "1000"]),
        (["0,123", "0,456"], ["0.123", "0.456"]),
        (["1,234.5", "12"], ["1234.5", "12"]),
        (["1,234,567", "1,000"], ["1234567", "1000"]),
        (["1,234", "2,345"], None),
        (["1,5", "1.5"], None),
        (["1,5", "x"], None),
        (["1,234.5", "1.234,5"], None),
    ],
)
def test_writings(entries: list[str], expected: list[str] | None) -> None:
    found = read_decimals(pl.Series(entries))
    assert (None if found is None else found.to_list()) == expected


def test_a_column_of_a_table(tmp_path) -> None:  # type: ignore[no-untyped-def]
    (tmp_path / "a.csv").write_text("x;y\n1,5;1,234\n;2,345\n-2;3,456\n")
    table = read_table(tmp_path / "a.csv")
    assert table.numbers("x", empty=True)[[0, 2]].tolist() == [1.5, -2]
    with pytest.raises(DataError, match="line 2: `y` is '1,234', not a finite number"):
        table.numbers("y")
