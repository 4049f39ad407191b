"""Wide tables of series: what their columns are for, and the same series in long form."""

from __future__ import annotations

from pathlib import Path

import pytest

from unspool.data.roles import Roles
from unspool.data.series import read_series
from unspool.data.tables import read_table
from unspool.data.wide import WideColumns, find_wide, unfold
from unspool.errors import DataError

STEPS = tuple(f"V{n}" for n in range(2, 11))
HEADER = ",".join(["V1", *STEPS])


def write(folder: Path, *rows: str, header: str = HEADER, name: str = "wide.csv") -> Path:
    path = folder / name
    path.write_text("\n".join([header, *rows]) + "\n", encoding="utf-8")
    return path


def test_a_wide_table_has_the_series_of_its_long_form(tmp_path: Path) -> None:
    wide = write(tmp_path, "Y1,1,2,3,4,5,6,7,,", "Y2,,1.5,2,3,2,1,2,3,4", "Y3,9,8,7,6,5,4,3,2,1")
    table = read_table(wide)
    columns = find_wide(Roles(table))
    assert columns == WideColumns("V1", STEPS, ())
    found = read_series(unfold(table, columns), time="step", targets=["value"], series="V1")
    assert [(one.name, one.values.ravel().tolist()) for one in found] == [
        ("Y1", [1, 2, 3, 4, 5, 6, 7]),
        ("Y2", [1.5, 2, 3, 2, 1, 2, 3, 4]),
        ("Y3", [9, 8, 7, 6, 5, 4, 3, 2, 1]),
    ]
    assert [one.stamps(len(one), 2) for one in found] == [["8", "9"], ["10", "11"], ["10", "11"]]


def test_dates_and_years_above_the_steps_are_times(tmp_path: Path) -> None:
    dates = [f"2024-01-{day:02}" for day in range(1, 10)]
    for name, steps, after in (("days", dates, "2024-01-10"), ("years", list(map(str, range(1990, 1999))), "1999")):
        path = write(tmp_path, "a,1,2,3,4,5,6,7,8,9", header=",".join(["Page", *steps]), name=f"{name}.csv")
        columns = find_wide(Roles(table := read_table(path)))
        assert columns is not None
        assert columns.time == "date"
        (one,) = read_series(unfold(table, columns), time="date", targets=["value"], series="Page")
        assert one.stamps(9, 1) == [after]


def test_mistakes_have_the_line_of_their_series(tmp_path: Path) -> None:
    first = write(tmp_path, "Y1,1,2,3,4,5,6,7,8,9", "Y2,1,2,3,4,5,6,7,8,9", name="one.csv")
    gap = write(tmp_path, "Y3,1,2,3,4,5,6,7,8,9", "Y4,1,2,,4,5,6,7,8,9", name="two.csv")
    table = read_table([first, gap])
    columns = find_wide(Roles(table))
    assert columns is not None
    with pytest.raises(DataError, match=r"two.csv, line 3: `value` has no number within its series"):
        read_series(unfold(table, columns), time="step", targets=["value"], series="V1")
    table = read_table(write(tmp_path, "Y1,1,2,3,4,5,6,7,8,9", "Y2,,,,,,,,,"))
    with pytest.raises(DataError, match=r"wide.csv, line 3: the series has no values. Leave the row out."):
        unfold(table, columns)


def test_rows_without_a_name_are_numbered(tmp_path: Path) -> None:
    path = write(tmp_path, "1,2,3,4,5,6,7,8,9,1", "2,2,3,4,5,6,7,8,9,1", header=HEADER)
    columns = find_wide(Roles(table := read_table(path)))
    assert columns is not None
    assert (columns.name, columns.series) == (None, "series")
    found = read_series(unfold(table, columns), time="step", targets=["value"], series="series")
    assert [(one.name, len(one)) for one in found] == [("1", 10), ("2", 10)]


def test_a_table_in_long_form_is_not_wide(tmp_path: Path) -> None:
    path = write(tmp_path, "2024-01-01,3,4", "2024-01-02,4,5", header="date,a,b")
    assert find_wide(Roles(read_table(path))) is None
