"""A sample on the terminal: nothing in it acts, and frames around it are straight."""

from __future__ import annotations

import io

import pytest
from rich.cells import cell_len
from rich.console import Console
from tests.cli.made_up import CHINESE, HOSTILE, SHOWN

from unspool.cli.sample import Framed, wrap
from unspool.harmless import harmless


def test_a_sample_is_harmless() -> None:
    assert harmless(HOSTILE) == SHOWN


def test_lines_are_broken_between_words_and_between_chinese_characters() -> None:
    assert wrap("to be or not", 5) == ["to be", "or", "not"]
    assert wrap("  indented\n\nend ", 10) == ["  indented", "", "end"]
    assert wrap("abcdefgh i", 3) == ["abc", "def", "gh", "i"]
    assert wrap("ab  c", 3) == ["ab", "c"]
    assert wrap("满纸荒唐言", 5) == ["满纸", "荒唐", "言"]
    assert wrap("abc 满纸荒", 7) == ["abc 满", "纸荒"]
    assert wrap("荒唐言，一把", 6) == ["荒唐", "言，一", "把"]  # a comma begins no line


@pytest.mark.parametrize("width", [20, 60, 61])
@pytest.mark.parametrize("height", [None, 3])
def test_a_frame_is_straight_around_chinese(width: int, height: int | None) -> None:
    out = Console(file=io.StringIO(), width=width, color_system=None)
    with out.capture() as capture:
        out.print(Framed(CHINESE + "\nand words " + HOSTILE, "样本", height))
    lines = capture.get().rstrip("\n").split("\n")
    assert {cell_len(line) for line in lines} == {width}
    if height is None:
        seen = "".join(line[1:-1].replace(" ", "") for line in lines[1:-1])
        assert seen == (CHINESE + "andwords" + SHOWN).replace(" ", "")
    else:
        assert len(lines) == 5
        assert lines[-2].rstrip(" │").endswith("…")
