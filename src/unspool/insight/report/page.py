"""The report's page: verdicts on top, then each question with its pictures, all in one file that opens offline."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from unspool.insight.report.markup import document, embed, inert
from unspool.insight.report.parts import (
    NO_SCRIPT,
    TITLE,
    count_verdicts,
    show_contents,
    show_facts,
    show_figures,
    show_findings,
    show_masthead,
    show_missing,
    show_reading,
    show_verdicts,
)
from unspool.insight.report.plain import fit
from unspool.learning.files import write_file

if TYPE_CHECKING:
    from unspool.insight.report.contract import Report, Section

#: Bytes of a whole page, and what its shell takes of them, most of which is plotly's script.
LARGEST, SHELL = 8_000_000, 5_000_000
DOWNLOAD = '<a id="download" download="xray.json">Download the numbers (JSON)</a>'


def write_report(report: Report, path: str | os.PathLike[str]) -> Path:
    """Write the page to `path`, whole or not at all."""
    target = Path(path)
    write_file(target, render(report).encode("utf-8"))
    return target


def render(report: Report) -> str:
    """The page as HTML; of numbers that would make it larger than 8 MB, the longest lists are left out."""
    shown = [_show_section(section) for section in report.sections]
    data = [text for _, texts in shown for text in texts]
    numbers, left_out = fit(report.numbers, LARGEST - SHELL - sum(map(len, data)))
    missing = (*report.missing, *(f"The download has no {name}: too large for one page." for name in left_out))
    count = f'<p class="count">{count_verdicts(report.verdicts)}</p>' if report.verdicts else ""
    facts = f'<section id="facts"><h2>The run</h2>{show_facts(report.facts)}</section>' if report.facts else ""
    body = (
        f"{show_masthead(report.title, report.subtitle, DOWNLOAD)}"
        f'<div class="columns">{show_contents(_contents(report, missing))}<main id="main">{NO_SCRIPT}'
        f'<section id="verdicts"><h2>Verdicts</h2>{count}'
        f"{show_verdicts(report)}</section>"
        f"{facts}"
        f"{''.join(text for text, _ in shown)}{show_missing(missing)}</main></div>"
    )
    return document(report.title, body, [*data, embed("numbers", numbers)], kind="report")


def _contents(report: Report, missing: tuple[str, ...]) -> list[tuple[str, str]]:
    sections = [(f"section-{section.key}", section.title) for section in report.sections]
    return [
        ("verdicts", "Verdicts"),
        *([("facts", "The run")] if report.facts else []),
        *sections,
        *([("missing", "What could not be measured")] if missing else []),
    ]


def _show_section(section: Section) -> tuple[str, list[str]]:
    figures, data = show_figures(section)
    return (
        f'<section class="topic" id="section-{section.key}"><h2>{inert(section.title, TITLE)}</h2>'
        f'<p class="question">{inert(section.question)}</p>{show_findings(section.findings)}{figures}'
        f"{show_reading(section)}</section>",
        data,
    )
