"""Two runs on one page: the verdicts of both, each question side by side, and a table of what differs."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from unspool.insight.report.markup import document, embed, inert
from unspool.insight.report.page import DOWNLOAD, LARGEST, SHELL
from unspool.insight.report.parts import (
    NO_SCRIPT,
    TITLE,
    count_verdicts,
    show_figures,
    show_findings,
    show_masthead,
    show_reading,
    show_verdicts,
)
from unspool.insight.report.plain import fit
from unspool.insight.report.scalars import KEY, find_scalars, rank, say_name

if TYPE_CHECKING:
    from unspool.insight.report.contract import Report, Section

ABSENT = "–"
SIDES = ("A", "B")
#: Rows of the table that stand open; the others are folded.
OPEN = 24
#: A fact that is a number, with commas between thousands or without.
NUMBER = re.compile(r"[-−+]?(\d+|\d{1,3}(,\d{3})+)(\.\d+)?(e[-+]?\d+)?", re.ASCII)


def render_comparison(a: Report, b: Report) -> str:
    """The page as HTML, with `a` on the left."""
    reports = (a, b)
    keys = list(dict.fromkeys(section.key for report in reports for section in report.sections))
    titles = {section.key: section.title for report in reversed(reports) for section in report.sections}
    shown = [_compare_section(key, reports) for key in keys]
    data = [text for _, texts in shown for text in texts]
    room = (LARGEST - SHELL - sum(map(len, data))) // 2
    numbers = {side.lower(): fit(report.numbers, room)[0] for side, report in zip(SIDES, reports, strict=True)}
    body = (
        f"{show_masthead(f'{a.title} beside {b.title}', '', DOWNLOAD)}"
        f'<div class="columns"><main id="main">{NO_SCRIPT}{_links((key, titles[key]) for key in keys)}'
        f'<section id="verdicts"><h2>Verdicts</h2>{_columns(map(_judge, reports), reports)}</section>'
        f"{_show_table(a, b)}{''.join(text for text, _ in shown)}{_compare_missing(reports)}</main></div>"
    )
    return document(f"{a.title} beside {b.title}", body, [*data, embed("numbers", numbers)], kind="comparison")


def _links(entries: Iterable[tuple[str, str]]) -> str:
    fixed = [("verdicts", "Verdicts"), ("figures", "Key figures")]
    links = [*fixed, *((f"section-{key}", title) for key, title in entries)]
    items = "".join(f'<li><a href="#{target}">{inert(title, TITLE)}</a></li>' for target, title in links)
    return f'<nav class="links" aria-label="Contents"><ul>{items}</ul></nav>'


def _columns(texts: Iterable[str], reports: Sequence[Report]) -> str:
    inner = "".join(
        f'<div><h3 class="side"><span class="letter">{side}</span>{inert(report.title, TITLE)}</h3>{text}</div>'
        for side, report, text in zip(SIDES, reports, texts, strict=True)
    )
    return f'<div class="pair">{inner}</div>'


def _judge(report: Report) -> str:
    return f'<p class="count">{count_verdicts(report.verdicts)}</p>{show_verdicts(report)}'


def _compare_section(key: str, reports: Sequence[Report]) -> tuple[str, list[str]]:
    found = [next((section for section in report.sections if section.key == key), None) for report in reports]
    whole = next(section for section in found if section is not None)
    texts, data = [], []
    for side, section in zip(SIDES, found, strict=True):
        text, figures = _show_side(section, side)
        texts.append(text)
        data += figures
    return (
        f'<section class="topic" id="section-{key}"><h2>{inert(whole.title, TITLE)}</h2>'
        f'<p class="question">{inert(whole.question)}</p>{_columns(texts, reports)}'
        f"{show_reading(whole)}</section>",
        data,
    )


def _show_side(section: Section | None, side: str) -> tuple[str, list[str]]:
    if section is None:
        return '<p class="absent">Not measured in this run.</p>', []
    places, data = show_figures(section, f"{side.lower()}-")
    return show_findings(section.findings) + places, data


def _compare_missing(reports: Sequence[Report]) -> str:
    if not any(report.missing for report in reports):
        return ""
    texts = (
        f"<ul>{''.join(f'<li>{inert(reason)}</li>' for reason in report.missing)}</ul>"
        if report.missing
        else '<p class="absent">Everything was measured.</p>'
        for report in reports
    )
    columns = _columns(texts, reports)
    return f'<section class="missing" id="missing"><h2>What could not be measured</h2>{columns}</section>'


def _show_table(a: Report, b: Report) -> str:
    rows = [*_fact_rows(a, b), *_number_rows(a, b)]
    rest = ""
    if len(rows) > OPEN:
        rest = (
            f'<details class="more"><summary>{len(rows) - OPEN} more figures</summary>'
            f'<div class="scroll">{_table(rows[OPEN:])}</div></details>'
        )
    return (
        f'<section id="figures"><h2>Key figures</h2><div class="scroll" tabindex="0" role="region" '
        f'aria-label="Key figures of both runs">{_table(rows[:OPEN])}</div>{rest}</section>'
    )


def _table(rows: Sequence[str]) -> str:
    heads = "".join(f'<th scope="col" class="number"><span class="letter">{side}</span></th>' for side in SIDES)
    return (
        f'<table><thead><tr><th scope="col">Figure</th>{heads}<th scope="col" class="number">Difference, B − A</th>'
        f"</tr></thead><tbody>{''.join(rows)}</tbody></table>"
    )


def _fact_rows(a: Report, b: Report) -> Iterator[str]:
    other = dict(b.facts)
    for name, value in a.facts:
        if name in other:
            compared = _compare_facts(str(value), str(other[name]))
            yield _row(name, (inert(value, TITLE), inert(other[name], TITLE), compared), "text")


def _compare_facts(a: str, b: str) -> str:
    if a == b:
        return "same"
    one, other = _read(a), _read(b)
    return "differs" if one is None or other is None else say_difference(one, other)


def _read(fact: str) -> float | None:
    if not NUMBER.fullmatch(fact):
        return None
    value = float(fact.replace(",", "").replace("−", "-"))
    return value if math.isfinite(value) else None


def _number_rows(a: Report, b: Report) -> Iterator[str]:
    """What both have, and key figures that one has: its layers may have other names."""
    one, other = find_scalars(a.numbers), find_scalars(b.numbers)
    for name in sorted({**one, **other}, key=rank):
        if name in one and name in other:
            difference = say_difference(one[name], other[name])
        elif rank(name) < KEY:
            difference = ABSENT
        else:
            continue
        cells = [say(side[name]) if name in side else ABSENT for side in (one, other)]
        yield _row(say_name(name), (*cells, difference), "number")


def _row(name: str, cells: Sequence[str], kind: str) -> str:
    inner = "".join(f'<td class="{kind}">{cell}</td>' for cell in cells)
    return f'<tr><th scope="row">{inert(name, TITLE)}</th>{inner}</tr>'


def say(value: float) -> str:
    """A number in four significant digits, with a real minus sign."""
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    whole = value == int(value) and abs(value) < 1e7
    return (f"{int(value):,}" if whole else f"{value:.4g}").replace("-", "−")


def say_difference(a: float, b: float) -> str:
    """`b` − `a` with its sign, and by what share of `a` where that can be said."""
    if a == b:
        return "same"
    difference = b - a
    said = f"{'+' if difference > 0 else ''}{say(difference)}"
    if a == 0 or math.isinf(difference):
        return said
    share = 100 * difference / abs(a)
    return f"{said} ({'+' if share > 0 else ''}{share:.3g} %)".replace("-", "−") if abs(share) < 1000 else said
