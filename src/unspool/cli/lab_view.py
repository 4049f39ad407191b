"""What `unspool lab` shows while and after chapters run: progress, verdicts, tables."""

from __future__ import annotations

import json
import math
import threading
from collections import Counter
from collections.abc import Sequence
from types import TracebackType
from typing import Any, Self

from rich.console import Group, RenderableType
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from unspool.cli.lab_list import duration
from unspool.cli.terminal import console
from unspool.lab.claims import Claim
from unspool.lab.folder import Folder
from unspool.lab.page import judge, write_cell
from unspool.lab.running import Event
from unspool.lab.verdict import OUTCOMES, Verdict
from unspool.language import Translator

STYLES = {"holds": "green", "does not hold": "red", "not decided": "yellow"}


class LiveView:
    """A progress bar per running chapter, and a line per finished one."""

    def __init__(self, claims: Sequence[Claim], translate: Translator) -> None:
        self.out, self.translate = console(error=True), translate
        self.progress = Progress(
            TextColumn("{task.description}"), BarColumn(), TextColumn("{task.percentage:3.0f} %"), TimeElapsedColumn(),
            console=self.out, transient=True, disable=not self.out.is_terminal,
        )  # fmt: skip
        self.tasks: dict[str, TaskID] = {}
        self.whole = self.progress.add_task(translate("chapters"), total=len(claims))
        self.lock = threading.Lock()

    def __enter__(self) -> Self:
        self.progress.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.progress.stop()

    def tell(self, event: Event) -> None:
        """Show what has happened; called from several threads."""
        with self.lock:
            if event.kind == "started":
                self.tasks[event.claim.name] = self.progress.add_task(event.claim.name, total=1.0)
            elif event.kind == "progress":
                self.progress.update(self.tasks[event.claim.name], completed=event.fraction)
            else:
                self.end(event)

    def end(self, event: Event) -> None:
        """The line of a chapter that has ended."""
        task = self.tasks.pop(event.claim.name, None)
        if task is not None:
            self.progress.remove_task(task)
        self.progress.advance(self.whole)
        self.out.print(result_line(event, self.translate), soft_wrap=True)


def result_line(event: Event, t: Translator) -> Text:
    """A chapter's verdict in a line."""
    if event.record is None:
        return Text.assemble((f"{t('failed'):<14}", "bold red"), f"{event.claim.name}: {event.problem}")
    verdict = judge(event.record)
    kept = f" ({t('finished before')})" if event.kind == "kept" else ""
    return Text.assemble(
        (f"{t(verdict.outcome):<14}", STYLES[verdict.outcome]),
        (f"{event.claim.name:<21}", "cyan"),
        f"{t(verdict.reason)} · {duration(event.record.seconds)}{kept}",
    )


class JsonView:
    """One JSON object per line and chapter."""

    def __init__(self) -> None:
        self.lock = threading.Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Nothing is left to print."""

    def tell(self, event: Event) -> None:
        """Print a chapter that has ended."""
        if event.kind in ("started", "progress"):
            return
        with self.lock:
            print(json.dumps(as_object(event), ensure_ascii=False), flush=True)


def as_object(event: Event) -> dict[str, Any]:
    """A chapter that has ended, for JSON."""
    claim = event.claim
    known = {"id": claim.id, "name": claim.name, "claim": claim.claim, "kind": claim.kind}
    if event.record is None:
        return {**known, "verdict": None, "error": event.problem}
    verdict = judge(event.record)
    return {**known, **as_fields(verdict), "numbers": event.record.found, "seconds": round(event.record.seconds, 2)}


def as_fields(verdict: Verdict) -> dict[str, Any]:
    """A verdict, for JSON, which has no infinity and no NaN."""
    ends = None if verdict.interval is None else [_finite(end) for end in verdict.interval]
    margin = _finite(verdict.margin)
    return {"verdict": verdict.outcome, "margin": margin, "interval": ends, "reason": str(verdict.reason)}


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def summary(events: Sequence[Event], folder: Folder, t: Translator) -> RenderableType:
    """The table of a single chapter, or the number of each verdict; and where the page is."""
    done = [event for event in events if event.record is not None]
    parts: list[RenderableType] = []
    if len(done) <= 3:
        for event in done:
            parts += chapter_view(event, t)
    counts = Counter(judge(event.record).outcome for event in done if event.record is not None)
    line = ", ".join(f"{counts[outcome]} {t(outcome)}" for outcome in OUTCOMES if counts[outcome])
    failed = sum(event.record is None for event in events)
    parts.append(Text(f"{line}{f', {failed} ' + t('failed') if failed else ''}", "bold"))
    if done:
        parts.append(Text(f"{t('page')}: {folder.page}"))
    return Group(*parts)


def chapter_view(event: Event, t: Translator) -> list[RenderableType]:
    """Claim, table and verdict of one chapter."""
    from unspool.lab.catalogue import find_chapter

    assert event.record is not None
    chapter, verdict = find_chapter(event.claim.name), judge(event.record)
    parts: list[RenderableType] = [
        Text(f"{event.claim.id} {t(event.claim.question)}", "bold"),
        Text(t(event.claim.claim)),
        Text(chapter.equation, "italic"),
        Text(t(chapter.method), "dim"),
    ]
    for described in chapter.show(event.record.found).tables:
        table = Table(box=None, pad_edge=False, header_style="bold")
        for name in described.heading:
            table.add_column(t(name))
        for row in described.rows:
            table.add_row(*(write_cell(value, t) for value in row))
        parts.append(table)
    parts += [Text.assemble((t(verdict.outcome), STYLES[verdict.outcome]), f": {t(verdict.reason)}"), Text()]
    return parts
