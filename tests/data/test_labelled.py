"""Sequences in long form: rows that are out of order or cannot be read are refused, or noted of their sequence."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from unspool.data.labelled import Raw, read_steps
from unspool.data.tables import read_table
from unspool.errors import DataError

GOOD = ["a,0,1", "a,1,2"]


def read(tmp_path: Path, *rows: str, tolerant: bool = True) -> Raw:
    file = tmp_path / "steps.csv"
    file.write_text("\n".join(["id,time,x", *rows, ""]), encoding="utf-8")
    return read_steps(read_table(file, tolerant=tolerant), "id", "time", ["x"], [])


@pytest.mark.parametrize(
    ("rows", "problem"),
    [
        (["b,2,1", "b,0,1", "b,1,1"], "line 5: `time` is earlier than the row before it, in sequence 'b'. Sort"),
        (["b,2,1", "b,2,1"], "line 5: `time` has the time of the row before it, in sequence 'b'. Keep one"),
        (["b,2,1", "b,,1"], "line 5: `time` is empty"),
        (["b,2,1", "b,soon,1"], "line 5"),
    ],
    ids=["earlier", "twice", "empty", "no time"],
)
def test_a_sequence_out_of_order_is_noted_and_the_others_are_kept(
    tmp_path: Path, rows: list[str], problem: str
) -> None:
    found = read(tmp_path, *GOOD, *rows, "c,5,3")
    assert found.names == ["a", "b", "c"]
    assert {*found.bad} == {1}
    assert problem in found.bad[1]
    assert found.series is not None
    assert found.series[0].tolist() == [[1], [2]]
    with pytest.raises(DataError, match="line 5"):
        read(tmp_path, *GOOD, *rows, tolerant=False)


@pytest.mark.parametrize(
    ("rows", "bad"),
    [
        (["b,0,1", "b,1", "b,2,1", "c,0,1"], {1}),
        (["b,0,1", "b,1,2,3", "c,0,1"], {1, 2}),
        (["b,0,1", ",1,1"], {1}),
    ],
    ids=["within", "between", "no name"],
)
def test_a_row_that_cannot_be_read_is_noted_of_its_sequence(tmp_path: Path, rows: list[str], bad: set[int]) -> None:
    found = read(tmp_path, *GOOD, *rows)
    assert found.names == [*"abc"][: len(found.names)]
    assert {*found.bad} == bad
    assert all("line 5" in problem for problem in found.bad.values())
    with pytest.raises(DataError, match="line 5"):
        read(tmp_path, *GOOD, *rows, tolerant=False)


def test_rows_of_several_sequences_may_alternate(tmp_path: Path) -> None:
    found = read(tmp_path, "a,0,1", "b,0,2", "a,1,3", "b,1,4")
    assert not found.bad
    assert found.series is not None
    assert np.array_equal(found.series, [[[1], [3]], [[2], [4]]])


def test_a_table_without_any_readable_row_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="line 2"):
        read(tmp_path, "a,1", "b")
