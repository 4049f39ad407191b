"""The parts that pages are put together from: verdicts, facts, pictures, lists."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from unspool.insight.report.markup import embed_figure, inert, place_figure, show_equation
from unspool.insight.report.severity import LOOKS

if TYPE_CHECKING:
    from unspool.insight.report.contract import Report, Section, Verdict

TITLE = 200
NO_SCRIPT = (
    '<noscript><p class="notice">Pictures and the download of the numbers need JavaScript, which is off. '
    "The verdicts and all explanations are complete without it.</p></noscript>"
)


def show_masthead(title: str, subtitle: str, tools: str = "") -> str:
    """The page's title with the switch between light and dark."""
    below = f'<p class="subtitle">{inert(subtitle, 400)}</p>' if subtitle else ""
    return (
        '<a class="skip" href="#main">Skip to the verdicts</a>'
        f'<header class="masthead"><div><p class="brand">unspool X-ray</p><h1>{inert(title, TITLE)}</h1>{below}</div>'
        f'<div class="tools" hidden>{tools}<button type="button" id="theme">Dark</button></div></header>'
    )


def show_contents(entries: Iterable[tuple[str, str]]) -> str:
    """The list of what is on the page: beside it where there is room, folded above it where there is none."""
    links = "".join(f'<li><a href="#{target}">{inert(name, TITLE)}</a></li>' for target, name in entries)
    return (
        '<nav class="contents" aria-label="Contents"><details open><summary>Contents</summary>'
        f"<ol>{links}</ol></details></nav>"
    )


def show_verdict(verdict: Verdict, target: str | None) -> str:
    """One verdict; `target` is where its picture is."""
    look = LOOKS[verdict.severity]
    icon = f'<svg class="icon" viewBox="0 0 24 24" aria-hidden="true"><path d="{look.drawing}"/></svg>'
    remedy = f'<p class="remedy"><strong>What to do.</strong> {inert(verdict.remedy)}</p>' if verdict.remedy else ""
    command = f'<pre class="command"><code>{inert(verdict.command)}</code></pre>' if verdict.command else ""
    link = f'<p class="see"><a href="#{target}">See the picture</a></p>' if target else ""
    return (
        f'<li class="verdict {verdict.severity}"><div class="severity">{icon}<span>{look.word}</span></div><div>'
        f"<h3>{inert(verdict.title, TITLE)}</h3><p>{inert(verdict.evidence)}</p>{remedy}{command}{link}</div></li>"
    )


def show_verdicts(report: Report, prefix: str = "section-") -> str:
    """All verdicts in their order, with links to the sections that the page has."""
    if not report.verdicts:
        return '<p class="notice">No verdict could be reached.</p>'
    keys = {section.key for section in report.sections}
    items = (
        show_verdict(verdict, f"{prefix}{verdict.section}" if verdict.section in keys else None)
        for verdict in report.verdicts
    )
    return f'<ol class="verdicts">{"".join(items)}</ol>'


def count_verdicts(verdicts: Sequence[Verdict]) -> str:
    """Such as `1 fault, 2 warnings`."""
    counts = {severity: sum(verdict.severity == severity for verdict in verdicts) for severity in LOOKS}
    said = (
        f"{count} {look.plural if count != 1 else look.plural.removesuffix('s')}"
        for severity, look in LOOKS.items()
        if (count := counts[severity])
    )
    return ", ".join(said)


def show_facts(facts: Sequence[tuple[str, str]]) -> str:
    """Names and values, side by side."""
    rows = "".join(f"<div><dt>{inert(name, TITLE)}</dt><dd>{inert(value, 400)}</dd></div>" for name, value in facts)
    return f'<dl class="facts">{rows}</dl>'


def show_missing(missing: Sequence[str]) -> str:
    """What could not be measured, and why."""
    if not missing:
        return ""
    items = "".join(f"<li>{inert(reason)}</li>" for reason in missing)
    return f'<section class="missing" id="missing"><h2>What could not be measured</h2><ul>{items}</ul></section>'


def show_findings(findings: Sequence[str]) -> str:
    """What the pictures of a section show in this run."""
    if not findings:
        return ""
    return f'<ul class="findings">{"".join(f"<li>{inert(finding)}</li>" for finding in findings)}</ul>'


def show_reading(section: Section) -> str:
    """How to read a section's pictures: the explanation and the equation."""
    paragraphs = (part for part in section.explanation.split("\n\n") if part.strip())
    said = "".join(f"<p>{inert(part)}</p>" for part in paragraphs)
    equation = f'<div class="equation">{show_equation(section.equation)}</div>' if section.equation else ""
    return f'<div class="reading"><h3>How to read it</h3>{said}{equation}</div>' if said or equation else ""


def show_figures(section: Section, prefix: str = "") -> tuple[str, list[str]]:
    """Places for a section's pictures, and the data that are drawn there."""
    says = " ".join((section.question, *section.findings))
    names = [f"{prefix}{section.key}-{place}" for place in range(len(section.figures))]
    pairs = list(zip(names, section.figures, strict=True))
    places = "".join(f"<figure>{place_figure(name, figure, says)}</figure>" for name, figure in pairs)
    return places, [embed_figure(f"data-{name}", figure) for name, figure in pairs]
