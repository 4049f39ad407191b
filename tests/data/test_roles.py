"""Roles of columns: what each holds, and which are times, series and targets."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from unspool.data.columns import split_name
from unspool.data.roles import Roles, SeriesColumns
from unspool.data.tables import Table


def roles(columns: Mapping[str, list[Any]]) -> Roles:
    frame = pl.DataFrame({name: [str(one) for one in column] for name, column in columns.items()})
    return Roles(Table(frame, (Path("a.csv"),), (0,), np.arange(len(frame))))


DAYS = [f"2024-01-{day:02}" for day in range(1, 21)]


@pytest.mark.parametrize(
    ("entries", "kind"),
    [
        (DAYS, "time"),
        (["31.01.2024", "01.02.2024"], "time"),
        (["1", "2.5", "", "na"], "number"),
        (["1,5", "2,5"], "number"),
        (["a", "b", "a", "b"], "label"),
        (["a", "b", "c"], "text"),
        (["a long sentence with many words in it"] * 3, "text"),
        (["", " "], "empty"),
    ],
)
def test_kinds(entries: list[str], kind: str) -> None:
    assert roles({"x": entries}).kinds["x"] == kind


def test_names() -> None:
    assert split_name("dateTime_GMT") == ["date", "time", "gmt"]
    assert split_name("Temp (°C)") == ["temp"]
    found = roles({name: ["1", "2"] for name in ("", "Unnamed: 0", "textID", "idea", "store id")} | {"6": ["1", "2"]})
    assert [column for column in found.table.columns if found.is_identity(column)] == [
        "Unnamed: 0",
        "textID",
        "store id",
        "6",
    ]


def test_times_by_name_and_content() -> None:
    assert roles({"x": DAYS, "y": [*range(20)]}).find_time() == "x"
    assert roles({"born": DAYS, "date": DAYS}).find_time() == "date"
    assert roles({"time": [*range(20)], "y": [*range(20)]}).find_time() == "time"
    assert roles({"time": [3, 1, 2, 0], "y": [1, 2, 3, 4]}).find_time() is None  # a duration, say
    assert roles({"month": ["low", "high"], "y": [1, 2]}).find_time() is None
    assert roles({"x": DAYS}).find_time(taken=["x"]) is None


def test_series() -> None:
    one = roles({"date": DAYS, "a": [*range(20)], "b": [*range(20)], "note": [f"note {n}" for n in range(20)]})
    assert one.find_series() == SeriesColumns("date", None, ("a", "b"), ("note",))
    assert one.find_series(targets=["b"]) == SeriesColumns("date", None, ("b",), ("a", "note"))
    assert one.find_series(others=["a"]) == SeriesColumns("date", None, ("b",), ("note",))
    long = roles({"date": DAYS * 2, "shop": ["x"] * 20 + ["y"] * 20, "value": [*range(40)], "kind": ["p", "q"] * 20})
    assert long.find_series() == SeriesColumns("date", "shop", ("value",), ("kind",))
    numbered = roles({"item_id": [7] * 20 + [8] * 20, "date": DAYS * 2, "sold": [*range(40)]})
    assert numbered.find_series() == SeriesColumns("date", "item_id", ("sold",), ())
    assert (
        roles({"year": [2000] * 12 + [2001] * 12, "month": [*range(1, 13)] * 2, "y": [*range(24)]}).find_series()
        is None
    )
    assert roles({"date": DAYS, "note": ["a"] * 20}).find_series() is None


def test_sequences_of_one_label() -> None:
    found = roles(
        {"id": ["1", "1", "2", "2"], "x": [1, 2, 3, 4], "label": ["a", "a", "b", "b"], "z": ["a", "b", "a", "b"]}
    )
    assert found.find_owner_of("label") == "id"
    assert found.find_owner_of("z") is None


def test_rows_that_are_series() -> None:
    assert roles({f"V{n}": ["1", "2"] for n in range(1, 12)}).rows_are_series()
    assert roles({"id": ["1"], **{f"2020-{n:02}": ["1"] for n in range(1, 12)}}).rows_are_series()
    assert not roles({"x1": ["1"], "x2": ["2"], "y": ["3"]}).rows_are_series()
