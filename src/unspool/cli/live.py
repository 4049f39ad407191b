"""A run on a screen that is redrawn in place, by a thread of its own."""

from __future__ import annotations

import threading
import time
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.live import Live

from unspool.cli.finish import render_finish
from unspool.cli.screen import Screen
from unspool.cli.terminal import console
from unspool.learning.events import Event, Finished

#: Redraws a second, at most; without news there is none.
REDRAWS = 4
#: Of the time, the most that drawing may take: it is taken from training's.
SHARE = 0.01


class LiveView:
    """The whole state of a run, at a glance. The last of it stays on screen, with `render_finish` below it."""

    def __init__(self, out: Console | None = None) -> None:
        self.console = console() if out is None else out
        self.screen = Screen()
        self._live = Live(
            console=self.console, auto_refresh=False, get_renderable=lambda: self.screen.render(self.console)
        )
        self._thread = threading.Thread(target=self._redraw, name="unspool-screen", daemon=True)
        self._over = threading.Event()
        self._news = False
        self._failure: BaseException | None = None

    def __enter__(self) -> Self:
        self._live.start()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop()
        if error is None:
            self._raise()

    def __call__(self, event: Event) -> None:
        self._raise()
        self.screen.take(event)
        self._news = True
        if isinstance(event, Finished):
            self._stop()
            self.console.print(render_finish(event), crop=False)

    def _redraw(self) -> None:
        size = self.console.size
        pause = 1 / REDRAWS
        while not self._over.wait(pause):
            if not self._news and size == self.console.size:
                continue
            # Before drawing: what comes meanwhile is news again.
            self._news, size = False, self.console.size
            began = time.thread_time()
            try:
                self._live.refresh()
            except BaseException as failure:  # rich leaves by SystemExit where nobody reads any more
                self._failure = failure
                return
            pause = max(1 / REDRAWS, (time.thread_time() - began) / SHARE)

    def _raise(self) -> None:
        """What went wrong in the drawing thread belongs to the caller's."""
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure

    def _stop(self) -> None:
        """Draw the last state, and give the terminal back: cursor, standard output and standard error."""
        self._over.set()
        if self._thread.is_alive():
            self._thread.join()
        self._live.stop()
