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
from unspool.learning.files import write_file


def write_report(report: Content, path: str | os.PathLike[str], spelling: Spelling = PYTHON) -> Path:
    """Write the page to `path`, whole or not at all."""
    target = Path(path)
    write_file(target, render(report, spelling).encode("utf-8"))
    return target


def render(report: Content, spelling: Spelling = PYTHON) -> str:
    """The page of a report as HTML.

    Args:
        report: what to show. If its numbers would make the page larger than 8 MB, the longest lists are left out.
        spelling: how settings are written; by default as in Python.

    Returns:
        A whole document that loads nothing.

    Example:
        >>> Path("xray.html").write_text(render(report), encoding="utf-8")  # doctest: +SKIP
    """
    report = report.spelled(spelling)
    places = {section.key: place_section(section) for section in report.sections}
    data = {f"data-{place.name}": embed_figure(figure) for drawn in places.values() for place, figure in drawn.items()}
    numbers, left_out = fit(report.numbers, ROOM - sum(map(len, data.values())))
    return render_document(
        "report.html.j2",
        report.title,
        {**data, "numbers": to_json(numbers)},
        ["page.js"],
        report=report,
        verdicts=show_verdicts(report, spelling),
        places={key: list(drawn) for key, drawn in places.items()},
        missing=[*report.missing, *(f"The download has no {name}: too large for one page." for name in left_out)],
    )
