"""Labelled lines: each published form is found, and what is none of them is left alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from unspool.data.labelled_lines import find_form, read_labelled_lines
from unspool.errors import DataError

TEXTS = ["How far is it from Denver to Aspen ?", "Who was Galileo ?", "What is an atom ?", "Where is Rome ?"] * 6


@pytest.mark.parametrize(
    ("labels", "separator", "expected"),
    [
        (["5", "3"], " ", ["5", "3"]),
        (["-1", "1"], " ", ["-1", "1"]),
        (["NUM:dist", "HUM:desc"], " ", ["NUM:dist", "HUM:desc"]),
        (["__label__pos", "__label__neg"], " ", ["pos", "neg"]),
        (["__label__a __label__b", "__label__c"], " ", ['["a", "b"]', '["c"]']),
        (["ham", "spam"], "\t", ["ham", "spam"]),
    ],
)
def test_forms(tmp_path: Path, labels: list[str], separator: str, expected: list[str]) -> None:
    lines = [f"{labels[n % 2]}{separator}{text} \n" for n, text in enumerate(TEXTS)]
    file = tmp_path / "a.all"
    file.write_text("\n" + "".join(lines))
    form = find_form(lines)
    assert form is not None
    frame, numbers = read_labelled_lines(file, form)
    assert frame["text"].to_list() == TEXTS
    assert frame["label"].to_list() == expected * 12
    assert numbers.tolist() == list(range(2, 26))


@pytest.mark.parametrize(
    "lines",
    [
        ["Call me Ishmael.", "Some years ago"],
        [f"{n} And God said" for n in range(1, 30)],  # verses
        ["1 2 3", "0 4 5"] * 20,  # numbers
        ["0 one text"],
        [],
        ["1984 was a year", "It was a bright cold day"] * 9,
        [f"word{n}\tO" for n in range(40)],
    ],
)
def test_other_texts_have_no_form(lines: list[str]) -> None:
    assert find_form([f"{line}\n" for line in lines]) is None


def test_lines_without_a_label_are_said_at_once(tmp_path: Path) -> None:
    file = tmp_path / "a.all"
    lines = [f"{n % 2} {text}\n" for n, text in enumerate(TEXTS)]
    file.write_text("".join([*lines, "no label\n", "nor this\n"]))
    form = find_form(lines)
    assert form is not None
    with pytest.raises(DataError, match=r"2 problems:\n.*a\.all, line 25: it starts with no label.*\n.*line 26"):
        read_labelled_lines(file, form)
