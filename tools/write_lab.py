"""Writes the tables of docs/lab.md and docs/choosing.md that come from the lab.

`make docs` writes the headings; `python -m tools.write_lab runs/lab` also the results in that folder.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

from unspool.lab.claims import CLAIMS, DOCUMENTS
from unspool.lab.folder import Folder, Record
from unspool.lab.headings import headings_of
from unspool.lab.page import judge

DOCS = Path(__file__).parent.parent / "docs"
PAGE, CHOOSING = DOCS / "lab.md", DOCS / "choosing.md"
#: What each section of docs/choosing.md is about, and the chapters that measured it.
CHOICES = {
    "baseline or recurrence": ("bag", "receptive-field", "fixed-input"),
    "cell": ("adding", "gru-lstm", "latch", "jordan", "residual"),
    "depth": ("layers", "depth", "translation", "paths", "supervision"),
    "direction": ("kalman", "opinion-pools", "delay", "bidirectional-limits"),
    "truncation": ("truncation", "clipping"),
    "initial weights": ("orthogonal", "stability"),
    "dropout": ("layer-dropout",),
}


def insert(text: str, name: str, lines: Iterator[str]) -> str:
    """The page with the part between two marks made anew."""
    begin, end = f"<!-- {name}: written by tools/write_lab.py -->", f"<!-- end of {name} -->"
    if begin not in text or end not in text:
        raise ValueError(f"the page has no {begin} before {end}")
    body = "\n".join(lines)
    return re.sub(f"{re.escape(begin)}.*{re.escape(end)}", lambda _: f"{begin}\n{body}\n{end}", text, flags=re.DOTALL)


def headings() -> Iterator[str]:
    """A table per document: headings and their chapters."""
    for short, title in DOCUMENTS.items():
        yield f"\n### {short}: {title}\n"
        yield "| heading | chapters |"
        yield "|---|---|"
        for heading in headings_of(short):
            english = "" if heading.english == heading.heading else f"{heading.english} · "
            yield f"| {english}{heading.heading} | {', '.join(f'`{name}`' for name in heading.chapters)} |"
    yield ""


def results(records: list[Record]) -> Iterator[str]:
    """The verdict on every claim."""
    date = max(record.date for record in records)
    form = "quick form" if any(record.quick for record in records) else "full form"
    seeds = max(record.count for record in records)
    yield f"\nThe {form}, {seeds} seeds, {date}, on {records[0].machine}, with unspool {records[0].version}.\n"
    yield "| id | chapter | claim | verdict | numbers | seconds |"
    yield "|---|---|---|---|---|---|"
    for record in records:
        claim, verdict = CLAIMS[record.name], judge(record)
        reason = str(verdict.reason).replace("|", "\\|")
        said = claim.claim.replace("|", "\\|")
        yield f"| {claim.id} | `{claim.name}` | {said} | **{verdict.outcome}** | {reason} | {record.seconds:.0f} |"
    yield ""


def choices(records: list[Record]) -> Iterator[str]:
    """What the lab measured about each choice."""
    found = {record.name: record for record in records}
    yield "\n| choice | claim | verdict | measured | chapter |"
    yield "|---|---|---|---|---|"
    for choice, names in CHOICES.items():
        for record in (found[name] for name in names if name in found):
            claim, verdict = CLAIMS[record.name], judge(record)
            yield f"| {choice} | {claim.claim} | {verdict.outcome} | {verdict.reason} | `unspool lab {claim.name}` |"
    yield ""


def main() -> None:
    """Write the headings and, if a folder of results is given, the results."""
    text = insert(PAGE.read_text(encoding="utf-8"), "headings", headings())
    if len(sys.argv) > 1:
        records = Folder(Path(sys.argv[1])).read_all(CLAIMS)
        text = insert(text, "results", results(records))
        choosing = insert(CHOOSING.read_text(encoding="utf-8"), "choices", choices(records))
        CHOOSING.write_text(choosing, encoding="utf-8")
    PAGE.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
