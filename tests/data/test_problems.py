"""Problems of data: all are told at once, the first ten with their places."""

from __future__ import annotations

import pytest

from unspool.data.problems import Problems, warn_unseen
from unspool.errors import DataError, DataWarning


def several(count: int) -> Problems:
    problems = Problems()
    for line in range(1, count + 1):
        problems.add(f"a.conll, line {line}: no tag. Write it.")
    return problems


def test_none_is_no_problem() -> None:
    Problems().refuse()
    Problems().warn("all the same.")


def test_one_is_said_as_it_is() -> None:
    with pytest.raises(DataError, match=r"^a\.conll, line 1: no tag\. Write it\.$"):
        several(1).refuse()


def test_of_many_the_first_ten_are_listed_and_all_are_counted() -> None:
    with pytest.raises(DataError) as caught:
        several(1_234).refuse()
    lines = str(caught.value).split("\n")
    assert lines[0] == "1,234 problems:"
    assert lines[1:11] == [f"  a.conll, line {line}: no tag. Write it." for line in range(1, 11)]
    assert lines[11:] == ["  … and 1,224 more."]
    with pytest.warns(DataWarning, match=r"^Read all the same. 10 problems:\n(.*\n)*.*line 10: no tag. Write it.$"):
        several(10).warn("Read all the same.")


def test_of_unseen_labels_the_most_frequent_are_named() -> None:
    with pytest.warns(DataWarning) as caught:
        warn_unseen("label", "examples", 100, [*"abcdefff"], "a.csv, line 9")
    assert str(caught[0].message).startswith(
        "a.csv, line 9: 8 of 100 examples have a label that does not occur in the training data: "
        "'f' (3), 'a' (1), 'b' (1), 'c' (1), 'd' (1), …. They count as wrong"
    )
    warn_unseen("label", "examples", 100, [], "a.csv, line 9")  # says nothing
