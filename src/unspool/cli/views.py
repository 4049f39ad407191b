"""What a person, or a program, sees of a run while it goes on; which view it is, is chosen here."""

from __future__ import annotations

import json as json_
import math
import sys
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Protocol, Self, TextIO

from unspool.cli.finish import render_finish
from unspool.cli.live import LiveView
from unspool.cli.plain import PlainView
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


class QuietView:
    """Says nothing."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Nothing to put back."""

    def __call__(self, event: Event) -> None:
        """Nothing."""


class JsonView(QuietView):
    """Every event as a JSON object on a line of its own, at once. What is not a finite number is null."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self.stream = sys.stdout if stream is None else stream

    def __call__(self, event: Event) -> None:
        content = finite(event.as_json())
        line = json_.dumps(content, ensure_ascii=False, allow_nan=False)
        try:
            line.encode(self.stream.encoding or "utf-8")
        except UnicodeEncodeError:  # half a pair of surrogates, or a stream in ASCII
            line = json_.dumps(content, allow_nan=False)
        self.stream.write(line + "\n")
        self.stream.flush()


def finite(value: Any) -> Any:
    """The value with None for every number that JSON has not."""
    if isinstance(value, Mapping):
        return {name: finite(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [finite(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
