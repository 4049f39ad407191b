"""A report as terminal text: its facts and verdicts, the most important first, in at most 100 columns."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from typing import TYPE_CHECKING

from rich.cells import cell_len, chop_cells

from unspool.insight.report.severity import LOOKS

if TYPE_CHECKING:
    from unspool.insight.report.contract import Report

COLUMNS = 100
#: Columns of a fact's name.
NAME = 24
#: Characters of one text; a token can have thousands.
LONGEST = 600
#: Invisible characters that letters and emoji are joined by; all other invisible ones are shown by their number.
JOINERS = "\u200c\u200d"


def summarise(report: Report) -> str:
    """Title, facts, verdicts with evidence and remedy, and what is missing, as lines of plain text."""
    lines = [*_wrap(report.title, ""), *(_wrap(report.subtitle, "") if report.subtitle else ())]
    names = [next(iter(chop_cells(_visible(name), NAME)), "") for name, _ in report.facts]
    widest = max(map(cell_len, names), default=0)
    for name, (_, value) in zip(names, report.facts, strict=True):
        lines += _wrap(value, f"  {name}{' ' * (widest - cell_len(name))}  ", 4 + widest)
    lines.append("")
    lines += ["No verdict could be reached."] if not report.verdicts else []
    for verdict in report.verdicts:
        look = LOOKS[verdict.severity]
        lines += _wrap(verdict.title, f"{look.mark} {look.word}: ", 2)
        lines += _wrap(verdict.evidence, "  ", 2)
        lines += _wrap(verdict.remedy, "  → ", 4) if verdict.remedy else ()
        lines += _wrap(verdict.command, "    $ ", 6) if verdict.command else ()
        lines.append("")
    if report.missing:
        lines += ["Not measured:", *(line for reason in report.missing for line in _wrap(reason, "  – ", 4))]
    return "\n".join(lines).rstrip() + "\n"


def _wrap(text: str, first: str, indent: int = 0) -> Iterator[str]:
    """Lines of at most `COLUMNS` cells; the first begins with `first`, the others with `indent` spaces."""
    line, empty = first, True
    for word in _visible(text).split():
        for piece in chop_cells(word, COLUMNS - max(cell_len(first), indent)):
            if cell_len(line) + (not empty) + cell_len(piece) > COLUMNS:
                yield line.rstrip()
                line, empty = " " * indent, True
            line, empty = f"{line}{'' if empty else ' '}{piece}", False
    yield line.rstrip()


def _visible(text: str) -> str:
    """Text that cannot steer the terminal: control and direction characters by their numbers; long text is cut."""
    cut = text if len(text) <= LONGEST else f"{text[:LONGEST]}… ({len(text):,} characters)"
    return "".join(
        f"⟨U+{ord(letter):04X}⟩"
        if unicodedata.category(letter) in ("Cc", "Cf", "Cs") and letter not in JOINERS and not letter.isspace()
        else letter
        for letter in cut
    )
