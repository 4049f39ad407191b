"""A report as terminal text: its facts and verdicts, the most important first, in at most 100 columns."""

from __future__ import annotations

import re
from collections.abc import Iterator

from rich.cells import cell_len, chop_cells

from unspool.harmless import shorten, with_code_points
from unspool.insight.report.advice import PYTHON, Spelling
from unspool.insight.report.contract import Content, Verdict
from unspool.insight.report.severity import LOOKS
from unspool.language import ENGLISH, Translator

COLUMNS = 100
#: Columns of a fact's name.
NAME = 24
#: Characters of one text; a token can have thousands.
LONGEST = 600

#: A Chinese character or what stands between such characters, with the punctuation after it.
CHINESE = re.compile(r"(?:[\u3000-\u9fff\uff00-\uffef]|[^\u3000-\u9fff\uff00-\uffef]+)[，。；：、）！？]*")


def summarize(report: Content, spelling: Spelling = PYTHON, language: str = ENGLISH) -> str:
    """A report as lines of plain text: title, facts, verdicts with evidence and remedy, and what is missing.

    Args:
        report: what to say.
        spelling: how settings are written; by default as in Python.
        language: of all texts, a key of `unspool.language.LANGUAGES`.

    Returns:
        Lines of at most 100 columns. Nothing in them acts on a terminal.

    Example:
        >>> print(summarize(report))  # doctest: +SKIP
    """
    translate = Translator(language)
    report = report.translated(translate).spelled(spelling)
    lines = [*_wrap(report.title, ""), *(_wrap(report.subtitle, "") if report.subtitle else ())]
    lines += [*_facts(report), ""]
    if not report.verdicts:
        lines.append(translate("No verdict could be reached."))
    for verdict in report.verdicts:
        lines += [*_verdict(verdict, report.spell(verdict, spelling), translate), ""]
    if report.missing:
        lines += [translate("Not measured:"), *(line for reason in report.missing for line in _wrap(reason, "  – ", 4))]
    return "\n".join(lines).rstrip() + "\n"


def _facts(report: Content) -> Iterator[str]:
    names = [next(iter(chop_cells(_safe(name), NAME)), "") for name, _ in report.facts]
    widest = max(map(cell_len, names), default=0)
    for name, (_, value) in zip(names, report.facts, strict=True):
        yield from _wrap(value, f"  {name}{' ' * (widest - cell_len(name))}  ", 4 + widest)


def _verdict(verdict: Verdict, command: str | None, translate: Translator) -> Iterator[str]:
    look = LOOKS[verdict.severity]
    yield from _wrap(verdict.title, f"{look.mark} {translate(look.word)}: ", 2)
    yield from _wrap(verdict.evidence, "  ", 2)
    if verdict.remedy:
        yield from _wrap(verdict.remedy, "  → ", 4)
    if command is not None:
        yield from _wrap(command, "    ", 6)


def _wrap(text: str, first: str, indent: int = 0) -> Iterator[str]:
    """Lines of at most `COLUMNS` cells; the first begins with `first`, the others with `indent` spaces."""
    line, empty = first, True
    for gap, word in _words(_safe(text)):
        for piece in chop_cells(word, COLUMNS - max(cell_len(first), indent)):
            between = "" if empty else gap
            if cell_len(line) + len(between) + cell_len(piece) > COLUMNS:
                yield line.rstrip()
                line, between = " " * indent, ""
            line, empty = f"{line}{between}{piece}", False
    yield line.rstrip()


def _words(text: str) -> Iterator[tuple[str, str]]:
    """What a line may be broken between, each with what stands before it: a space, or nothing in Chinese."""
    for word in text.split():
        for place, piece in enumerate(CHINESE.findall(word)):
            yield " " if place == 0 else "", piece


def _safe(text: str) -> str:
    return with_code_points(shorten(text, LONGEST))
