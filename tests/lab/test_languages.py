"""Every text of the lab is in every language: claims, methods, verdicts, tables, figures."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from tests.lab.test_chapters import NAMES, holding

from unspool.cells import CATALOGUE
from unspool.lab import CLAIMS, Bars, HeatMap, Lines, find_chapter
from unspool.language import LANGUAGES, Translator

#: What reads the same in every language: names of cells, formulas, numbers.
SAME = re.compile(r"[^a-z]*|[^A-Za-z]*[A-Za-z]{1,2}[^A-Za-z]*|.*[=×σφΣ∂‖].*")


def texts(name: str) -> Iterator[str]:
    """All texts of a chapter that a reader sees."""
    claim, chapter, found = CLAIMS[name], find_chapter(name), holding(name)
    yield from (claim.question, claim.claim, chapter.method, chapter.judge(found).reason)
    shown = chapter.show(found)
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
        return
    yield from (series.name for series in figure.series)
    yield from (mark.name for mark in figure.marks)
    if isinstance(figure, Bars):
        yield from (str(group) for series in figure.series for group in series.x)


@pytest.mark.parametrize("language", [one for one in LANGUAGES if one != "en"])
@pytest.mark.parametrize("name", NAMES)
def test_every_text_is_translated(name: str, language: str) -> None:
    translate = Translator(language)
    for text in texts(name):
        translate(text)
    missing = {text for text in translate.missing if not SAME.fullmatch(text) and text not in CATALOGUE}
    assert missing == set()
