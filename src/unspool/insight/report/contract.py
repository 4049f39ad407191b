"""What a report is made of: verdicts, sections with pictures, facts and numbers."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from plotly.graph_objects import Figure

from unspool.errors import ArgumentError
from unspool.insight.report.notebook import frame
from unspool.insight.report.page import render, write_report
from unspool.insight.report.severity import LOOKS, Severity
from unspool.insight.report.terminal import summarise

KEY = re.compile(r"[a-z][a-z0-9_-]*")


@dataclass(frozen=True, eq=False)
class Verdict:
    """One judgement: what is so, how it is known and what to do."""

    key: str
    severity: Severity
    title: str
    evidence: str
    remedy: str
    command: str | None = None  #: what to type
    section: str | None = None  #: the key of the section with the picture

    def __post_init__(self) -> None:
        if self.severity not in LOOKS:
            raise ArgumentError.of("severity", self.severity, "is unknown", f"Choose from {', '.join(LOOKS)}")


@dataclass(frozen=True, eq=False)
class Section:
    """One question with its pictures and what they show."""

    key: str
    title: str
    question: str  #: what a student asks
    explanation: str  #: how to read the pictures; an empty line begins a paragraph
    equation: str = ""  #: MathML; anything else is shown as text
    figures: tuple[Figure, ...] = ()
    findings: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not KEY.fullmatch(self.key):
            raise ArgumentError.of("key", self.key, "cannot be a link's target", "Use small letters, digits, - and _")


@dataclass(frozen=True, eq=False)
class Report:
    """Everything that one X-ray has to say; it prints as a summary, and a notebook shows the page."""

    title: str
    subtitle: str = ""
    facts: tuple[tuple[str, str], ...] = ()
    verdicts: tuple[Verdict, ...] = ()  #: the most important first
    sections: tuple[Section, ...] = ()
    missing: tuple[str, ...] = ()  #: what could not be measured, and why
    numbers: Mapping[str, Any] = field(default_factory=dict)  #: as `to_plain` makes them

    def __post_init__(self) -> None:
        keys = [section.key for section in self.sections]
        for key in keys:
            if keys.count(key) > 1:
                raise ArgumentError.of("sections", key, "is there twice", "Give each section its own key")

    def __str__(self) -> str:
        return summarise(self)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """The page, as one file that opens without a network."""
        return write_report(self, path)

    def _repr_html_(self) -> str:
        return frame(render(self), self.title)
