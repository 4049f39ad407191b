"""What the templates of several pages need beside the report itself: places of figures, verdicts as they are shown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from plotly.graph_objects import Figure

from unspool.insight.report.advice import Spelling
from unspool.insight.report.contract import Content, Section, Verdict
from unspool.insight.report.severity import LOOKS
from unspool.language import Message, Translator, listed

HEIGHT = 420


class Place(NamedTuple):
    """Where a script draws a figure."""

    name: str
    height: int  # pixels
    label: str  # what a screen reader says


class ShownVerdict(NamedTuple):
    """A verdict, how to follow it, and the id of the section that shows it."""

    verdict: Verdict
    command: str | None
    target: str | None


class ShownVerdicts(NamedTuple):
    """All verdicts of a report, and how many there are of each severity."""

    summary: str
    entries: tuple[ShownVerdict, ...]


def place_figure(name: str, figure: Figure, label: str) -> Place:
    """The place of one figure."""
    return Place(name, int(figure.layout.height or HEIGHT), label)


def place_section(section: Section, prefix: str = "") -> dict[Place, Figure]:
    """The places of a section's figures."""
    label = " ".join((section.question, *section.findings))
    return {
        place_figure(f"{prefix}{section.key}-{number}", figure, label): figure
        for number, figure in enumerate(section.figures)
    }


def show_verdicts(report: Content, spelling: Spelling, translate: Translator) -> ShownVerdicts:
    """The verdicts in their order, each with a link to its section if the report has it."""
    keys = {section.key for section in report.sections}
    entries = tuple(
        ShownVerdict(
            verdict, report.spell(verdict, spelling), f"section-{verdict.section}" if verdict.section in keys else None
        )
        for verdict in report.verdicts
    )
    return ShownVerdicts(translate(count_verdicts(report.verdicts)), entries)


def count_verdicts(verdicts: Sequence[Verdict]) -> str:
    """Such as `1 fault, 2 warnings`."""
    counts = {severity: sum(verdict.severity == severity for verdict in verdicts) for severity in LOOKS}
    return listed(
        Message(f"{{count}} {look.plural if count != 1 else look.plural.removesuffix('s')}", count=count)
        for severity, look in LOOKS.items()
        if (count := counts[severity])
    )
