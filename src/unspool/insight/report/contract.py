"""What a report is made of: verdicts, sections with figures, facts and numbers. Data only; nothing is drawn here."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

from unspool.errors import ArgumentError
from unspool.insight.figures.wording import translate_figure
from unspool.insight.report.advice import Retrain, Spelling
from unspool.insight.report.scalars import Scalar
from unspool.insight.report.severity import LOOKS, Severity
from unspool.language import ENGLISH, Message, Translator

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

KEY = re.compile(r"[a-z][a-z0-9_-]*")


def draw_nothing() -> tuple[Figure, ...]:
    """The figures of a section that has none."""
    return ()


@dataclass(frozen=True, eq=False)
class Verdict:
    """One judgement: what is the case, the evidence for it, and what to change.

    Attributes:
        key: names the rule that made it, such as `vanishing`.
        severity: `fault`, `warning`, `note` or `good`.
        title: the verdict in a few words.
        evidence: the numbers behind it, in a sentence or two.
        remedy: what to do; empty if there is nothing to do.
        settings: settings of training to change, by name; empty if there is none that helps.
        section: the key of the section that shows it.

    Example:
        >>> Verdict("vanishing", "fault", "Gradients vanish", "…", "Use a gated cell.", {"cell": "lstm"}).settings
        {'cell': 'lstm'}
    """

    key: str
    severity: Severity
    title: str
    evidence: str
    remedy: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    section: str | None = None

    def __post_init__(self) -> None:
        if self.severity not in LOOKS:
            raise ArgumentError.of("severity", self.severity, "is unknown", f"Choose from {', '.join(LOOKS)}")

    def translated(self, translate: Translator) -> Verdict:
        """The verdict in the reader's language."""
        title, evidence, remedy = map(translate, (self.title, self.evidence, self.remedy))
        return replace(self, title=title, evidence=evidence, remedy=remedy)


@dataclass(frozen=True, eq=False)
class Section:
    """One question with its figures and what they show.

    Attributes:
        key: names the section in links; lower-case letters, digits, - and _.
        title: a few words.
        question: what a student asks.
        explanation: how to read the figures; an empty line begins a paragraph.
        equation: MathML; anything else is shown as text.
        draw: makes the figures; called when a page is rendered, not before.
        findings: what the figures show in this model.
    """

    key: str
    title: str
    question: str
    explanation: str
    equation: str = ""
    draw: Callable[[], tuple[Figure, ...]] = draw_nothing
    findings: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not KEY.fullmatch(self.key):
            raise ArgumentError.of("key", self.key, "cannot be a link's target", "Use a-z, 0-9, - and _")

    @cached_property
    def figures(self) -> tuple[Figure, ...]:
        """The figures, drawn when first asked for."""
        return self.draw()

    def translated(self, translate: Translator) -> Section:
        """The section in the reader's language, with figures that are drawn in it."""
        return replace(
            self,
            title=translate(self.title),
            question=translate(self.question),
            explanation=translate(self.explanation),
            draw=lambda: self._draw_translated(translate),
            findings=tuple(map(translate, self.findings)),
        )

    def _draw_translated(self, translate: Translator) -> tuple[Figure, ...]:
        return tuple(translate_figure(figure, translate) for figure in self.draw())


@dataclass(frozen=True, eq=False)
class Content:
    """Everything that a report says; `Report` adds how it is shown.

    Attributes:
        title: of the whole report.
        subtitle: what was looked into, in a line.
        facts: names and values about the model and its data.
        verdicts: the most important first.
        sections: one for each measure that has something to show.
        missing: what could not be measured, and why.
        numbers: everything that was measured, in the types of JSON.
        scalars: the single numbers that people look for, and their names in words.
        retrain: how to train the run again; None if the model is not from a run.
    """

    title: str
    subtitle: str = ""
    facts: tuple[tuple[str, str], ...] = ()
    verdicts: tuple[Verdict, ...] = ()
    sections: tuple[Section, ...] = ()
    missing: tuple[str, ...] = ()
    numbers: Mapping[str, Any] = field(default_factory=dict)
    scalars: tuple[Scalar, ...] = ()
    retrain: Retrain | None = None

    def __post_init__(self) -> None:
        keys = [section.key for section in self.sections]
        for key in keys:
            if keys.count(key) > 1:
                raise ArgumentError.of("sections", key, "is there twice", "Give each section its own key")

    def find_section(self, key: str) -> Section | None:
        """The section of a measure, if the report has it."""
        return next((section for section in self.sections if section.key == key), None)

    def spell(self, verdict: Verdict, spelling: Spelling) -> str | None:
        """How to follow a verdict, written for a reader; None if it asks for no setting or the model has no run."""
        if self.retrain is None or not verdict.settings:
            return None
        return spelling.command(self.retrain, verdict.settings)

    def spelled(self, spelling: Spelling) -> Self:
        """The report with all texts written for a reader."""
        verdicts = [
            replace(one, evidence=spelling.text(one.evidence), remedy=spelling.text(one.remedy))
            for one in self.verdicts
        ]
        sections = [
            replace(one, explanation=spelling.text(one.explanation), findings=tuple(map(spelling.text, one.findings)))
            for one in self.sections
        ]
        missing = map(spelling.text, self.missing)
        return replace(self, verdicts=tuple(verdicts), sections=tuple(sections), missing=tuple(missing))

    def translated(self, translate: Translator) -> Self:
        """The report in the reader's language; to be spelled after it is translated."""
        if translate.language == ENGLISH:
            return self
        names = [(translate(name), _value(value, translate)) for name, value in self.facts]
        return replace(
            self,
            title=_value(self.title, translate),
            subtitle=_value(self.subtitle, translate),
            facts=tuple(names),
            verdicts=tuple(one.translated(translate) for one in self.verdicts),
            sections=tuple(one.translated(translate) for one in self.sections),
            missing=tuple(map(translate, self.missing)),
        )


def _value(text: str, translate: Translator) -> str:
    """A text that may come from the data: only messages are ours to translate."""
    return translate(text) if isinstance(text, Message) else text
