"""The list of chapters that `unspool lab` prints; it imports neither torch nor plotly."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from unspool.lab.claims import DOCUMENTS, Claim
from unspool.lab.headings import heading_of
from unspool.language import Translator


def chapter_table(claims: Sequence[Claim], quick: bool, t: Translator) -> RenderableType:
    """The chapters, with what they ask and how long they take."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("id", "chapter", "question", "heading", "kind", "time"):
        table.add_column(t(heading), overflow="fold", no_wrap=heading in ("id", "chapter"))
    for claim in claims:
        seconds = claim.seconds[0 if quick else 1]
        table.add_row(
            claim.id,
            Text(claim.name, "cyan"),
            t(claim.question),
            heading_of(claim, t),
            t(claim.kind),
            duration(seconds),
        )
    named = ", ".join(f"{short} {t(title)}" for short, title in DOCUMENTS.items())
    hint = t("Run one: `unspool lab adding`. Run all: `unspool lab --all --quick`.")
    return Group(table, Text(), Text(named, "dim"), Text(hint, "dim"))


def duration(seconds: float) -> str:
    """`40 s` or `3 min`."""
    return f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.0f} min"
