"""What `unspool sweep` shows: a live table with curves on a terminal, lines or JSON anywhere else."""

from __future__ import annotations

import json as json_
import sys
import threading
from types import TracebackType
from typing import Protocol, Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from unspool.cli.curve import chart, sparkline
from unspool.cli.formatting import duration
from unspool.cli.spelling import spell
from unspool.cli.terminal import console
from unspool.harmless import harmless
from unspool.sweeps.course import Row, State
from unspool.sweeps.progress import count_states, describe, show_metrics, show_number, show_settings, show_value
from unspool.sweeps.searching import Snapshot, Told

#: Rows of the live table, besides those that are running.
SHOWN = 10
#: Columns of the curve of a trial, and lines and columns of the curve of the whole sweep.
CURVE, HEIGHT, WIDTH = 14, 6, 60
STYLES: dict[State, str] = {
    "running": "cyan",
    "finished": "green",
    "pruned": "dim",
    "failed": "red",
    "stopped": "yellow",
}


class SweepView(Protocol):
    """A listener that has the terminal to itself between entering and leaving."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def __call__(self, told: Told) -> None: ...


def choose_view(json: bool = False, quiet: bool = False) -> SweepView:
    """JSON if it is asked for, nothing if that is; else a live table on a terminal, and lines anywhere else."""
    if json:
        return JsonSweep()
    if quiet:
        return QuietSweep()
    out = console()
    able = sys.stdout.isatty() and not out.is_dumb_terminal and out.encoding.startswith("utf")
    return LiveSweep(out) if able else PlainSweep()


class QuietSweep:
    """Nothing at all."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """There is nothing to give back."""

    def __call__(self, told: Told) -> None:
        """Nothing is said."""


class PlainSweep(QuietSweep):
    """A line at the start, for each trial that ends, and at the end."""

    def __call__(self, told: Told) -> None:
        if line := describe(told):
            print(harmless(spell(line)), flush=True)


class JsonSweep(QuietSweep):
    """Every trial that has ended as a JSON object on a line of its own, and the best one at the end."""

    def __call__(self, told: Told) -> None:
        row = told.row
        if row is None or row.state == "running" or told.kind not in ("trial", "ended"):
            return
        kind = "best" if told.kind == "ended" else "trial"
        print(json_.dumps({"event": kind, **row.as_json()}, ensure_ascii=False), flush=True)


class LiveSweep(QuietSweep):
    """A table of the running and the best trials, each with its curve, and the best metric so far over the trials."""

    def __init__(self, out: Console) -> None:
        self._live = Live(console=out, auto_refresh=False, transient=False)
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.stop()

    def __call__(self, told: Told) -> None:
        with self._lock:
            self._live.update(render(told.sweep, self._live.console.width), refresh=True)


def render(sweep: Snapshot, width: int) -> RenderableType:
    """The whole sweep, at a glance."""
    return Group(*_heading(sweep), _table(sweep, width), *_course(sweep, width))


def _heading(sweep: Snapshot) -> list[Text]:
    lines = [
        Text.assemble((str(sweep.path), "bold"), f" · {sweep.task} · {count_states(sweep)} · {duration(sweep.seconds)}")
    ]
    if sweep.best is not None:
        best = sweep.best
        lines.append(
            Text.assemble(
                ("best ", "bold green"),
                f"trial {best.number}: {show_metrics(best, sweep)}  ({show_settings(best.settings)})",
            )
        )
    return lines


def _table(sweep: Snapshot, width: int) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("trial", "state", sweep.goal.metric, "time"):
        table.add_column(name, justify="left" if name == "state" else "right", no_wrap=True)
    wide = width >= 20 + CURVE + 12 * (2 + len(sweep.spaces))
    if wide:
        table.add_column("curve", no_wrap=True)
    for name in sweep.spaces:
        table.add_column(name, justify="right", no_wrap=True)
    for row in choose_rows(sweep):
        table.add_row(*_cells(row, sweep, wide))
    return table


def choose_rows(sweep: Snapshot) -> list[Row]:
    """The running trials, and the best of the others."""
    running = [row for row in sweep.rows if row.state == "running"]
    others = sorted(
        (row for row in sweep.rows if row.state != "running" and row.value is not None), key=sweep.goal.rank
    )
    failed = [row for row in sweep.rows if row.state == "failed" and row.value is None]
    return [*running, *others[:SHOWN], *failed[:2]]


def _cells(row: Row, sweep: Snapshot, wide: bool) -> list[Text | str]:
    state = f"{row.course.fraction:4.0%}" if row.state == "running" else row.state
    curve = sparkline(row.course.curve(sweep.goal.metric), CURVE, 1)[0] if row.course.evaluated else ""
    return [
        str(row.number),
        Text(state, STYLES[row.state]),
        show_number(row.value),
        duration(row.course.seconds),
        *([Text(curve, "cyan")] if wide else []),
        *(show_value(row.settings.get(name)) for name in sweep.spaces),
    ]


def _course(sweep: Snapshot, width: int) -> list[Text]:
    """The best metric so far over the trials that have ended."""
    values = [row.value for row in sweep.rows if row.value is not None and row.state != "running"]
    if len(values) < 2:
        return []
    so_far = [sweep.goal.best_of(tuple(values[: count + 1])) or 0.0 for count in range(len(values))]
    lines = chart(so_far, [], {}, min(width, WIDTH), HEIGHT)
    return [Text(f"best {sweep.goal.metric} so far, over {len(values)} trials", "dim"), *(Text(line) for line in lines)]
