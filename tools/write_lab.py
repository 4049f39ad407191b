"""Writes the tables of docs/lab.md: `make docs`, or `python -m tools.write_lab runs/lab` with the results of a run."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

from unspool.lab.claims import CLAIMS, DOCUMENTS
from unspool.lab.folder import Folder, Record
from unspool.lab.headings import headings_of
from unspool.lab.page import judge

PAGE = Path(__file__).parent.parent / "docs" / "lab.md"


def insert(text: str, name: str, lines: Iterator[str]) -> str:
    """The page with the part between two marks made anew."""
    begin, end = f"<!-- {name}: written by tools/write_lab.py -->", f"<!-- end of {name} -->"
    if begin not in text or end not in text:
        raise ValueError(f"{PAGE.name} has no {begin} before {end}")
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
    yield f"\nMeasured {date} on {records[0].machine}, with unspool {records[0].version}.\n"
    yield "| id | chapter | claim | verdict | numbers | seconds |"
    yield "|---|---|---|---|---|---|"
    for record in records:
        claim, verdict = CLAIMS[record.name], judge(record)
        reason = str(verdict.reason).replace("|", "\\|")
        said = claim.claim.replace("|", "\\|")
        yield f"| {claim.id} | `{claim.name}` | {said} | **{verdict.outcome}** | {reason} | {record.seconds:.0f} |"
    yield ""


def main() -> None:
    """Write the headings and, if a folder of results is given, the results."""
    text = insert(PAGE.read_text(encoding="utf-8"), "headings", headings())
    if len(sys.argv) > 1:
        text = insert(text, "results", results(Folder(Path(sys.argv[1])).read_all(CLAIMS)))
    PAGE.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
