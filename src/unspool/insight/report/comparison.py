"""Two runs on one page: the verdicts of both, each question side by side, and a table of what differs."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import NamedTuple

from unspool.insight.report.advice import PYTHON, Spelling
from unspool.insight.report.contract import Content, Section
from unspool.insight.report.document import ROOM, render_document
from unspool.insight.report.embedding import embed_figure
from unspool.insight.report.parts import Place, ShownVerdicts, place_section, show_verdicts
from unspool.insight.report.plain import fit, to_json
from unspool.insight.report.ranges import share_scales
from unspool.insight.report.scalars import Glossary
from unspool.language import ENGLISH, Message, Translator

ABSENT = "–"
SAME, DIFFERS = Message("same"), Message("differs")
LETTERS = ("A", "B")
#: Rows of the table that are visible; the others are folded.
OPEN = 24
#: A fact that is a number, with commas between thousands or without.
NUMBER = re.compile(r"[-−+]?(\d+|\d{1,3}(,\d{3})+)(\.\d+)?(e[-+]?\d+)?", re.ASCII)


class Run(NamedTuple):
    """One side of the page."""

    letter: str
    report: Content
    verdicts: ShownVerdicts


class Topic(NamedTuple):
    """One question, with the section and the figures of each run; None where a run does not have it."""

    section: Section
    sides: list[tuple[Run, Section | None, list[Place]]]
    data: dict[str, str]


class Row(NamedTuple):
    """One number or fact of both runs."""

    name: str
    cells: tuple[str, str]
    difference: str
    kind: str  # "text" or "number"


def render_comparison(
    a: Content,
    b: Content,
    spelling: Spelling = PYTHON,
    language: str = ENGLISH,
    shared: Sequence[Section] = (),
) -> str:
    """Two reports side by side as HTML.

    Args:
        a: the report on the left.
        b: the report on the right.
        spelling: how settings are written; by default as in Python.
        language: of all texts, a key of `unspool.language.LANGUAGES`.
        shared: sections about both runs together, such as `tell_runs` of `unspool.insight.compare` makes.

    Returns:
        A whole document that loads nothing.

    Example:
        >>> page = render_comparison(unspool.xray("runs/a"), unspool.xray("runs/b"))  # doctest: +SKIP
    """
    translate = Translator(language)
    a, b = (report.translated(translate).spelled(spelling) for report in (a, b))
    pairs = zip(LETTERS, (a, b), strict=True)
    runs = [Run(letter, report, show_verdicts(report, spelling, translate)) for letter, report in pairs]
    topics = _compare_sections(runs)
    common = {one: place_section(one) for one in (section.translated(translate) for section in shared)}
    data = {name: text for topic in topics for name, text in topic.data.items()}
    data |= {f"data-{place.name}": embed_figure(one) for drawn in common.values() for place, one in drawn.items()}
    room = (ROOM - sum(map(len, data.values()))) // 2
    numbers = {run.letter.lower(): fit(run.report.numbers, room)[0] for run in runs}
    rows = [*_fact_rows(a, b), *_number_rows(a, b)]
    return render_document(
        "comparison.html.j2",
        translate(Message("{a} and {b}", a=a.title, b=b.title)),
        {**data, "numbers": to_json(numbers)},
        ["page.js"],
        t=translate,
        language=language,
        runs=runs,
        topics=topics,
        shared=common,
        rows=rows,
        open=OPEN,
        more=translate(Message("{count} more numbers", count=len(rows) - OPEN)),
        own=lambda text: translate(text) if isinstance(text, Message) else text,
    )


def _compare_sections(runs: Sequence[Run]) -> list[Topic]:
    keys = dict.fromkeys(section.key for run in runs for section in run.report.sections)
    return [_compare_section(key, runs) for key in keys]


def _compare_section(key: str, runs: Sequence[Run]) -> Topic:
    sides: list[tuple[Run, Section | None, list[Place]]] = []
    data: dict[str, str] = {}
    found = [run.report.find_section(key) for run in runs]
    shared = [
        share_scales(filter(None, figures))
        for figures in zip_longest(*(one.figures for one in found if one is not None))
    ]
    for run, section in zip(runs, found, strict=True):
        drawn = {} if section is None else place_section(section, f"{run.letter.lower()}-")
        pairs = zip(drawn.items(), shared, strict=False)
        data |= {f"data-{place.name}": embed_figure(figure, scales) for (place, figure), scales in pairs}
        sides.append((run, section, list(drawn)))
    return Topic(next(section for section in found if section is not None), sides, data)


def _fact_rows(a: Content, b: Content) -> Iterator[Row]:
    other = dict(b.facts)
    for name, value in a.facts:
        if name in other:
            cells = str(value), str(other[name])
            yield Row(name, cells, _compare_facts(*cells), "text")


def _compare_facts(a: str, b: str) -> str:
    if a == b:
        return SAME
    one, other = _read(a), _read(b)
    return DIFFERS if one is None or other is None else format_difference(one, other)


def _read(fact: str) -> float | None:
    if not NUMBER.fullmatch(fact):
        return None
    value = float(fact.replace(",", "").replace("−", "-"))
    return value if math.isfinite(value) else None


def _number_rows(a: Content, b: Content) -> Iterator[Row]:
    """Numbers that both runs have, and key numbers that one has: its layers may have other names."""
    glossary = Glossary((*a.scalars, *b.scalars))
    one, other = glossary.find(a.numbers), glossary.find(b.numbers)
    bounds = glossary.find_bounds(a.numbers), glossary.find_bounds(b.numbers)
    for name in glossary.sort({**one, **other}):
        if name in one and name in other:
            difference = format_difference(one[name], other[name])
        elif glossary.is_key(name):
            difference = ABSENT
        else:
            continue
        cells = tuple(
            ("≥ " if name in lower else "") + format_number(side[name]) if name in side else ABSENT
            for side, lower in zip((one, other), bounds, strict=True)
        )
        yield Row(glossary.words(name), (cells[0], cells[1]), difference, "number")


def format_number(value: float) -> str:
    """A number in four significant digits, with a real minus sign."""
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    whole = value == int(value) and abs(value) < 1e7
    return (f"{int(value):,}" if whole else f"{value:.4g}").replace("-", "−")


def format_difference(a: float, b: float) -> str:
    """`b` − `a` with its sign, and as a percentage of `a` where there is one."""
    if a == b:
        return SAME
    difference = b - a
    text = f"{'+' if difference > 0 else ''}{format_number(difference)}"
    if a == 0 or math.isinf(difference):
        return text
    percent = 100 * difference / abs(a)
    if abs(percent) >= 1000:
        return text
    return f"{text} ({'+' if percent > 0 else ''}{percent:.3g} %)".replace("-", "−")
