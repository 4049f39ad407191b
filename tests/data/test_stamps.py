"""Stamps beyond ISO 8601, as pandas reads them, and back."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from unspool.data.stamps import read_stamps, read_unix, spell_stamp
from unspool.errors import DataError


@pytest.mark.parametrize(
    ("form", "entries"),
    [
        ("%d.%m.%Y", ["31.01.2024", "01.02.2024"]),
        ("%d.%m.%Y %H:%M", ["31.01.2024 23:30", "01.02.2024 00:00"]),
        ("%m/%d/%Y", ["01/31/2024", "02/01/2024"]),
        ("%d/%m/%y", ["31/01/24", "01/02/24"]),
        ("%Y/%m/%d %H:%M:%S", ["2024/01/31 23:59:59", "2024/02/01 00:00:00"]),
        ("%m/%d/%Y %I:%M %p", ["01/31/2024 11:30 PM", "02/01/2024 12:30 AM"]),
        ("%b %Y", ["Jan 2024", "Feb 2024"]),
        ("%d-%b-%y", ["31-Jan-24", "01-Feb-24"]),
        ("%Y-%m-%d %H:%M:%S UTC", ["2024-01-31 22:00:00 UTC", "2024-01-31 23:00:00 UTC"]),
    ],
)
def test_as_pandas_reads_them_and_back(form: str, entries: list[str]) -> None:
    found = read_stamps(entries)
    assert found is not None
    moments, read = found
    assert read == form
    expected = pd.to_datetime(pd.Series(entries), format=form).dt.tz_localize(None).astype("datetime64[us]")
    assert moments.tolist() == expected.astype(np.int64).tolist()
    assert [spell_stamp(moment, form) for moment in moments.tolist()] == entries


def test_quarters() -> None:
    found = read_stamps(["2023Q4", "2024Q1"])
    assert found is not None
    assert found[0].astype("datetime64[us]").astype("datetime64[D]").astype(str).tolist() == [
        "2023-10-01",
        "2024-01-01",
    ]
    assert [spell_stamp(moment, found[1]) for moment in found[0].tolist()] == ["2023Q4", "2024Q1"]


def test_day_and_month_are_told_apart_by_what_is_regular() -> None:
    months = read_stamps([f"01/{month:02}/2020" for month in range(1, 13)] + ["01/01/2021"])
    assert months is not None
    assert months[1] == "%d/%m/%Y"
    days = read_stamps([f"01/{day:02}/2020" for day in range(1, 32)])
    assert days is not None
    assert days[1] == "%m/%d/%Y"
    with pytest.raises(DataError, match="may be 01 February 2020 or 02 January 2020. Write dates as 2024-01-31"):
        read_stamps(["01/02/2020", "01/03/2020", "01/04/2020"])


@pytest.mark.parametrize("entries", [[], ["x"], ["31.01.2024", "x"], ["1.5", "2.5"], ["12", "13"]])
def test_what_is_no_stamp(entries: list[str]) -> None:
    assert read_stamps(entries) is None


@pytest.mark.parametrize(
    ("unit", "form"), [("s", "unix seconds"), ("ms", "unix milliseconds"), ("us", "unix microseconds")]
)
def test_unix_times(unit: str, form: str) -> None:
    stamps = pd.date_range("2023-01-01", periods=3, freq="h")
    numbers = stamps.astype(f"datetime64[{unit}]").astype(np.int64).to_numpy()
    found = read_unix(numbers)
    assert found is not None
    assert found[1] == form
    assert found[0].tolist() == stamps.astype("datetime64[us]").astype(np.int64).tolist()
    assert [spell_stamp(moment, form) for moment in found[0].tolist()] == [str(one) for one in numbers]
    assert read_unix(np.array([0, *numbers])) is None
    assert read_unix(np.array([20240131])) is None
