"""The lab's page: every finished chapter, with contents by document and by verdict, in one file that opens offline."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from unspool.insight.report.document import render_document
from unspool.insight.report.embedding import embed_figure
from unspool.insight.report.parts import Place, place_figure
from unspool.insight.report.plain import to_json
from unspool.lab.catalogue import find_chapter
from unspool.lab.chapter import Chapter, Shown, Table
from unspool.lab.claims import CLAIMS, DOCUMENTS, Claim
from unspool.lab.drawing import draw
from unspool.lab.equation import to_mathml
from unspool.lab.folder import Record
from unspool.lab.headings import heading_of, headings_of
from unspool.lab.verdict import OUTCOMES, Number, Verdict
from unspool.language import Translator

#: Outcome of a verdict → the style of its box.
TONES = {"holds": "good", "does not hold": "fault", "not decided": "warning"}


@dataclass(frozen=True)
class Written:
    """A finished chapter as the page shows it."""

    claim: Claim
    chapter: Chapter
    record: Record
    verdict: Verdict
    shown: Shown
    places: Sequence[Place]
    equation: str


@dataclass(frozen=True)
class Heading:
    """A heading of a document with the chapters about it."""

    title: str
    chapters: Sequence[Written]


def judge(record: Record) -> Verdict:
    """The verdict on a finished chapter."""
    return find_chapter(record.name).judge(record.found)


def in_python(record: Record) -> str:
    """The call that measures a chapter again."""
    study = f"Study(quick={record.quick}, count={record.count}, first={record.first})"
    return f'find_chapter("{record.name}").measure({study})'


def render_page(records: Sequence[Record], language: str, again: Callable[[Record], str] = in_python) -> str:
    """The page of finished chapters.

    Args:
        records: the chapters.
        language: of all texts.
        again: how to measure a chapter again, for the reader; by default in Python.

    Returns:
        A whole document that loads nothing.
    """
    translate = Translator(language)
    data: dict[str, str] = {}
    chapters = [write(record, translate, data) for record in records]
    return render_document(
        "lab.html.j2",
        translate("The lab"),
        {**data, "numbers": to_json({one.claim.name: dict(one.record.found) for one in chapters})},
        ["page.js"],
        package="unspool.lab",
        t=translate,
        language=language,
        chapters=chapters,
        by_document=by_document(chapters, translate),
        by_verdict={outcome: [one for one in chapters if one.verdict.outcome == outcome] for outcome in OUTCOMES},
        missing=[claim for claim in CLAIMS.values() if claim.name not in {one.claim.name for one in chapters}],
        tones=TONES,
        again=again,
        heading_of=heading_of,
        cell=write_cell,
        is_number=is_number,
    )


def write(record: Record, translate: Translator, data: dict[str, str]) -> Written:
    """One chapter; its figures are added to `data`."""
    chapter, claim = find_chapter(record.name), CLAIMS[record.name]
    shown = chapter.show(record.found)
    places = []
    for number, description in enumerate(shown.figures):
        figure = draw(description, translate)
        name = f"{record.name}-{number}"
        data[f"data-{name}"] = embed_figure(figure)
        places.append(place_figure(name, figure, translate(description.title)))
    verdict = chapter.judge(record.found)
    return Written(claim, chapter, record, verdict, shown, places, to_mathml(chapter.equation))


def by_document(chapters: Sequence[Written], translate: Translator) -> Mapping[str, list[Heading]]:
    """Documents → their headings, in their order, with the chapters about each."""
    by_name = {one.claim.name: one for one in chapters}
    return {
        f"{short} · {translate(title)}": [
            Heading(heading.title(translate), [by_name[name] for name in heading.chapters if name in by_name])
            for heading in headings_of(short)
        ]
        for short, title in DOCUMENTS.items()
    }


def write_cell(value: Number | str, translate: Translator) -> str:
    """An entry of a table: texts translated, numbers with four significant digits."""
    if value is None:
        return "–"
    if isinstance(value, str):
        return translate(value)
    large = isinstance(value, int) or 1000 <= abs(value) < 1e9
    return f"{value:,.0f}" if large else f"{value:.4g}"


def is_number(table: Table, column: int) -> bool:
    """Whether a column has numbers, which stand to the right."""
    return all(not isinstance(row[column], str) for row in table.rows)
