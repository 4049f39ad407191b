"""Curves in braille, against pictures drawn by hand."""

from __future__ import annotations

import math

import pytest

from unspool.cli.curve import chart, sparkline

NAN, INF = math.nan, math.inf


@pytest.mark.parametrize(
    ("values", "width", "height", "picture"),
    [
        pytest.param([], 3, 2, ["   ", "   "], id="empty"),
        pytest.param([5.0], 2, 1, ["⠄ "], id="one point: a dot at the left, in the middle"),
        pytest.param([7.0, 7.0, 7.0], 3, 1, ["⠤⠤⠤"], id="constant"),
        pytest.param([0, 1, 2, 3], 2, 1, ["⡠⠊"], id="rising"),
        pytest.param([3, 2, 1, 0], 2, 1, ["⠑⢄"], id="falling"),
        pytest.param([0, 1, 2, 3, 4, 5, 6, 7], 4, 2, ["  ⡠⠊", "⡠⠊  "], id="over two lines"),
        pytest.param([0, 3], 2, 1, ["⡠⠊"], id="a straight line between two"),
        pytest.param([0, 3], 1, 1, ["⡸"], id="steep: no hole"),
        pytest.param([0, NAN, NAN, 3], 2, 1, ["⡀⠈"], id="not a number: a gap"),
        pytest.param([0, INF, -INF, 3], 2, 1, ["⡀⠈"], id="infinite: a gap"),
        pytest.param([NAN, NAN], 2, 1, ["  "], id="nothing finite"),
        pytest.param([0, 2, 4, 4], 1, 1, ["⠜"], id="means, where values are many"),
        pytest.param([0, NAN, 4, 4], 1, 1, ["⡸"], id="means of what is finite"),
        pytest.param([1.0, 2.0], 0, 2, ["", ""], id="no width"),
        pytest.param([1.0, 2.0], 2, 0, [], id="no height"),
    ],
)
def test_pictures(values: list[float], width: int, height: int, picture: list[str]) -> None:
    assert sparkline(values, width, height) == picture


def test_a_given_range_holds_and_cuts() -> None:
    assert sparkline([0, 0], 1, 1, low=0, high=3) == ["⣀"]
    assert sparkline([3, 3], 1, 1, low=0, high=3) == ["⠉"]
    assert sparkline([9, -9, -9, -9], 2, 1, low=0, high=3) == ["⢱⣀"]


def test_a_long_series_is_as_wide_as_asked() -> None:
    lines = sparkline([math.exp(-step / 5000) for step in range(20_000)], 50, 6)
    assert [len(line) for line in lines] == [50] * 6
    assert lines[0][0] != " "
    assert lines[-1][-1] != " "
    assert lines[0][-1] == lines[-1][0] == " "


def test_chart_has_axis_marks_and_named_levels() -> None:
    assert chart([1, 1], [(1.0, 1.0)], {"base": 2.0}, 30, 2) == [
        "2 ┤" + "┄" * 16 + " base 2.000",
        "1 ┤" + "⣀" * 15 + "●" + " " * 11,
    ]


def test_names_of_near_levels_share_no_line() -> None:
    lines = chart([0, 4], [], {"a": 1.01, "b": 1.0, "c": 0.99}, 60, 4)
    assert [line[-7:] for line in lines] == ["       ", "a 1.010", "b 1.000", "c 0.990"]


def test_a_narrow_chart_drops_names_and_an_odd_level_is_no_level() -> None:
    narrow = chart([1, 2], [], {"a long name": 1.5}, 20, 3)
    assert [len(line) for line in narrow] == [20] * 3
    assert "long" not in "".join(narrow)
    assert chart([1, 2], [(0.5, NAN)], {"nan": NAN}, 20, 3) == chart([1, 2], [], {}, 20, 3)


def test_names_are_cut_by_the_cells_they_take() -> None:
    lines = chart([1, 2], [], {"红楼梦的二元模型与别的很长的名字": 1.5}, 60, 3)
    assert lines[0] == "2 ┤" + lines[0][3:33] + " " * 27
    assert lines[1].endswith(" 红楼梦的二元模型与别的很长")
