"""Entries of saved documents: those of the right type come back, all others are refused by name."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

from unspool.data import saved
from unspool.errors import DataError

ODD = ["x", 3, -1, 0, 1.5, True, None, math.nan, 10**23, [], {}, ["a", 1], [[]], ["a", "a"], [{}], {"a": 1}]


@pytest.mark.parametrize(
    ("read", "good"),
    [
        (saved.read_names, ["a", "b"]),
        (saved.read_labels, ["a", 1, 2.5, False]),
        (saved.read_count, 7),
        (saved.read_flag, False),
        (saved.read_name, "a"),
        (saved.read_name, None),
    ],
)
def test_an_entry_of_its_type_comes_back(read: Callable[..., Any], good: Any) -> None:
    assert read({"entry": good, "other": 3}, "entry") == good


@pytest.mark.parametrize(
    ("read", "accepted"),
    [
        (saved.read_names, []),
        (saved.read_labels, [["a", 1]]),
        (saved.read_count, [3]),
        (saved.read_flag, [True]),
        (saved.read_name, ["x", None]),
    ],
)
def test_an_entry_of_another_type_is_refused(read: Callable[..., Any], accepted: list[Any]) -> None:
    for value in ODD:
        if any(type(value) is type(one) and value == one for one in accepted):
            continue
        with pytest.raises(DataError, match="`entry` .* Take the run's own"):
            read({"entry": value}, "entry")


def test_columns_are_names_by_setting() -> None:
    assert saved.read_columns({"columns": {"text_column": "text", "label_column": None}}) == {
        "text_column": "text",
        "label_column": None,
    }
    odd: list[Any] = [None, [], "text", {"text_column": 3}]
    for columns in odd:
        with pytest.raises(DataError, match="column"):
            saved.read_columns({"columns": columns})
