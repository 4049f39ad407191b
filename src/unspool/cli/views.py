"""What a person, or a program, sees of a run while it goes on; which view it is, is chosen here."""

from __future__ import annotations

import json as json_
import sys
from types import TracebackType
from typing import Protocol, Self, TextIO

from unspool.cli.finish import render_finish
from unspool.cli.live import LiveView
from unspool.cli.plain import PlainView
from unspool.cli.quiet_view import QuietView
from unspool.cli.terminal import console
from unspool.learning.events import Event

__all__ = ["JsonView", "LiveView", "PlainView", "QuietView", "View", "choose_view", "render_finish"]


class View(Protocol):
    """A listener that has the terminal to itself between entering and leaving."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def __call__(self, event: Event) -> None: ...


def choose_view(json: bool = False, quiet: bool = False) -> View:
    """JSON if it is asked for, nothing if that is; else a live screen on a terminal, and lines anywhere else.

    FORCE_COLOR does not make a terminal of a file, as it does for rich: a log would fill with screens.
    """
    if json:
        return JsonView()
    if quiet:
        return QuietView()
    out = console()
    able = sys.stdout.isatty() and not out.is_dumb_terminal and out.encoding.startswith("utf")
    return LiveView(out) if able else PlainView()


class JsonView(QuietView):
    """Every event as a JSON object on a line of its own, at once. What is not a finite number is null."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self.stream = sys.stdout if stream is None else stream

    def __call__(self, event: Event) -> None:
        content = event.as_json()
        line = json_.dumps(content, ensure_ascii=False, allow_nan=False)
        try:
            line.encode(self.stream.encoding or "utf-8")
        except UnicodeEncodeError:  # half a pair of surrogates, or a stream in ASCII
            line = json_.dumps(content, allow_nan=False)
        self.stream.write(line + "\n")
        self.stream.flush()
