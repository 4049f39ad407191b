"""The report's page: verdicts on top, then each question with its figures, all in one file that opens offline."""

from __future__ import annotations

import os
from pathlib import Path

from unspool.insight.report.advice import PYTHON, Spelling
from unspool.insight.report.contract import Content
from unspool.insight.report.document import ROOM, render_document
from unspool.insight.report.embedding import embed_figure
from unspool.insight.report.parts import place_section, show_verdicts
from unspool.insight.report.plain import fit, to_json
from unspool.language import ENGLISH, Message, Translator, listed
from unspool.storage.files import write_file

#: What a page says about numbers that do not fit into it.
LEFT_OUT = "The download has no {names}: too large for one page."


def write_report(
    report: Content, path: str | os.PathLike[str], spelling: Spelling = PYTHON, language: str = ENGLISH
) -> Path:
    """Write the page to `path`, whole or not at all."""
    target = Path(path)
    write_file(target, render(report, spelling, language).encode("utf-8"))
    return target


def render(report: Content, spelling: Spelling = PYTHON, language: str = ENGLISH) -> str:
    """The page of a report as HTML.

    Args:
        report: what to show. If its numbers would make the page larger than 4 MB, the longest lists are left out.
        spelling: how settings are written; by default as in Python.
        language: of all texts, a key of `unspool.language.LANGUAGES`.

    Returns:
        A whole document that loads nothing.

    Example:
        >>> Path("xray.html").write_text(render(report), encoding="utf-8")  # doctest: +SKIP
    """
    translate = Translator(language)
    report = report.translated(translate).spelled(spelling)
    places = {section.key: place_section(section) for section in report.sections}
    data = {f"data-{place.name}": embed_figure(figure) for drawn in places.values() for place, figure in drawn.items()}
    numbers, left_out = fit(report.numbers, ROOM - sum(map(len, data.values())))
    return render_document(
        "report.html.j2",
        report.title,
        {**data, "numbers": to_json(numbers)},
        ["page.js"],
        t=translate,
        language=language,
        report=report,
        verdicts=show_verdicts(report, spelling, translate),
        places={key: list(drawn) for key, drawn in places.items()},
        missing=[
            *report.missing,
            *([translate(Message(LEFT_OUT, names=listed(sorted(left_out))))] if left_out else []),
        ],
    )
