"""X-rays of a model in training: at the end and, for the training timeline, at evaluations."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from unspool.cli.spelling import OPTIONS
from unspool.cli.terminal import console

if TYPE_CHECKING:
    from unspool.insight.report.report import Report
    from unspool.runs.train import Watch

REPORT, TIMELINE = "xray.html", "timeline.html"


class TrainingXray:
    """What `--xray` and `--xray-every` ask for.

    Args:
        last: write a report at the end.
        every: also look into the model at every n-th evaluation, for the training timeline.
    """

    def __init__(self, last: bool = False, every: int | None = None) -> None:
        self.watch: Watch | None = None
        self._last, self._timeline = last or every is not None, None
        if every is not None:
            from unspool.insight.timeline import Timeline

            self._timeline = Timeline(every)
            self.watch = self._timeline.watch

    def finish(self, run: Path, silent: bool) -> None:
        """Write the pages of a finished run and, unless silent, print the verdicts."""
        if not self._last:
            return
        from unspool.insight.xray import xray

        if not silent:
            console(error=True).print("Looking inside the model. This takes up to a minute.", soft_wrap=True)
        report = xray(run)
        pages = [("Report", report.save(run / REPORT, OPTIONS))]
        if self._timeline is not None and (timeline := self._timeline.save(run / TIMELINE, OPTIONS)):
            pages.append(("Training timeline", timeline))
        if not silent:
            _print(report, pages)


def _print(report: Report, pages: list[tuple[str, Path]]) -> None:
    from unspool.insight.report.terminal import summarize

    out = console()
    out.print(f"\n{summarize(report, OPTIONS)}\n", markup=False, highlight=False, soft_wrap=True)
    for title, path in pages:
        out.print(f"{title}: {path}", markup=False, highlight=False, soft_wrap=True)
