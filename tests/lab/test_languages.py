"""Every text of the lab is in every language: claims, methods, verdicts, tables, figures, the exercise."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator

import pytest
from tests.lab.test_chapters import NAMES, as_json, cases, holding

from unspool.cells import CATALOGUE
from unspool.lab import CLAIMS, Bars, Found, HeatMap, Lines, Shown, find_chapter
from unspool.lab.exercise import check
from unspool.lab.exercise.mistakes import MISTAKES
from unspool.language import LANGUAGES, Translator

OTHERS = [one for one in LANGUAGES if one != "en"]
#: Names that read the same in every language, apart from those of cells.
NAMES_OF_THINGS = {"LSTM", "GRU", "Elman", "Jordan", "diag"}

#: Chapters whose numbers that refute the claim are too few to be shown.
BRIEF = {"forgetting", "unfolding", "orthogonal", "directions"}


def is_same(text: str) -> bool:
    """Whether a text reads the same in every language: formulas, names of cells, numbers."""
    words = re.findall(r"[A-Za-z]{3,}(?:-[a-z]+)*", text)
    return all(word in CATALOGUE or word in NAMES_OF_THINGS for word in words)


def numbers(name: str) -> Iterator[Found]:
    """Numbers that make the claim of a chapter hold, fail and stay open."""
    yield holding(name)
    yield from (as_json(each) for each in (cases(name).FAILS, cases(name).UNDECIDED) if each is not None)


def texts(name: str) -> Iterator[str]:
    """All texts of a chapter that a reader sees."""
    claim, chapter = CLAIMS[name], find_chapter(name)
    yield from (claim.question, claim.claim, chapter.method)
    for place, found in enumerate(numbers(name)):
        yield chapter.judge(found).reason
        if place == 0 or name not in BRIEF:
            yield from shown_texts(chapter.show(found))


def shown_texts(shown: Shown) -> Iterator[str]:
    """The texts of remarks, tables and figures."""
    yield from shown.remarks
    for table in shown.tables:
        yield from table.heading
        yield from (value for row in table.rows for value in row if isinstance(value, str))
    for figure in shown.figures:
        yield from texts_of(figure)


def texts_of(figure: Lines | Bars | HeatMap) -> Iterator[str]:
    """The texts of a figure."""
    yield figure.title
    yield figure.y
    if not isinstance(figure, Bars):
        yield figure.x
    if isinstance(figure, HeatMap):
        yield figure.color
        yield from (str(place) for place in (*figure.rows, *figure.columns))
        return
    yield from (series.name for series in figure.series)
    yield from (mark.name for mark in figure.marks)
    if isinstance(figure, Bars):
        yield from (str(group) for series in figure.series for group in series.x)


@pytest.mark.parametrize("language", OTHERS)
@pytest.mark.parametrize("name", NAMES)
def test_every_text_is_translated(name: str, language: str) -> None:
    translate = Translator(language)
    for text in texts(name):
        translate(text)
    assert {text for text in translate.missing if not is_same(text)} == set()


@pytest.mark.parametrize("language", OTHERS)
def test_the_exercise_is_translated(language: str) -> None:
    translate = Translator(language)
    for mistake in MISTAKES.values():
        translate(mistake.name)
        translate(mistake.remedy)
    for text in texts_of_the_check():
        translate(text)
    assert translate.missing == set()


def texts_of_the_check() -> Iterator[str]:
    """Texts in the source of the check: arguments of findings and messages, and remedies for a wrong shape."""
    for node in ast.walk(ast.parse(inspect.getsource(check))):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("Finding", "Message"):
            yield from constants(node.args)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "get":
            yield from constants(node.args[1:])
        if isinstance(node, ast.Dict):
            yield from constants(node.values)


def constants(nodes: list[ast.expr]) -> Iterator[str]:
    for node in nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def test_texts_of_the_check_are_found() -> None:
    found = set(texts_of_the_check())
    assert {"{where}; {mistake}", "Leave h0 out of the outputs", "Return (batch, time, hidden)"} <= found
