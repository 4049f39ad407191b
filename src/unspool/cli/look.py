"""A look inside a model that is trained: at the end, and, for a film, while it learns."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from unspool.cli.terminal import console
from unspool.learning.files import write_file

if TYPE_CHECKING:
    from unspool.tasks.train import Watch

NAME, FILM = "xray.html", "film.html"


class Look:
    """What `--xray` and `--xray-every` ask for."""

    def __init__(self, last: bool = False, every: int | None = None) -> None:
        self.watch: Watch | None = None
        self._last, self._film = last or every is not None, None
        if every is not None:
            from unspool.insight.film import Film

            self._film = Film(every)
            self.watch = self._film.watch

    def finish(self, run: Path, silent: bool) -> None:
        """The pages of a run, and their words."""
        if not self._last:
            return
        from unspool.insight.report.page import render
        from unspool.insight.xray import xray

        if not silent:
            console(error=True).print("Looking inside the model, which takes up to a minute.", soft_wrap=True)
        report = xray(run)
        write_file(run / NAME, render(report).encode())
        film = None if self._film is None else self._film.save(run / FILM)
        if silent:
            return
        out = console()
        out.print(f"\n{report}\n", markup=False, highlight=False, soft_wrap=True)
        for what, path in (("The pictures", run / NAME), ("The film", film)):
            if path is not None:
                out.print(f"{what}: {path}", markup=False, highlight=False, soft_wrap=True)
