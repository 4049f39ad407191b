"""X-rays of a model in training: at the end and, for the training timeline, at evaluations."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from unspool.cli.spelling import OPTIONS
from unspool.cli.terminal import console
from unspool.language import Message, Translator, choose_language

if TYPE_CHECKING:
    from unspool.insight.report.report import Report
    from unspool.runs.train import Watch

REPORT, TIMELINE = "xray.html", "timeline.html"


class TrainingXray:
    """What `--xray` and `--xray-every` ask for.

    Args:
        last: write a report at the end.
        every: also look into the model at every n-th evaluation, for the training timeline.
        language: of the pages and the verdicts; by default that of the locale.
    """

    def __init__(self, last: bool = False, every: int | None = None, language: str | None = None) -> None:
        self._translate = Translator(choose_language(language))
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

        translate = self._translate
        if not silent:
            looking = "Looking inside the model. This takes up to a minute."
            console(error=True).print(translate(looking), soft_wrap=True)
        report = xray(run)
        pages = [Message("Report: {path}", path=report.save(run / REPORT, OPTIONS, translate.language))]
        if self._timeline is not None:
            timeline = self._timeline.save(run / TIMELINE, OPTIONS, translate.language)
            pages += [Message("Training timeline: {path}", path=timeline)] if timeline else []
        if not silent:
            _print(report, pages, translate)


def _print(report: Report, pages: list[Message], translate: Translator) -> None:
    from unspool.insight.report.terminal import summarize

    out = console()
    summary = summarize(report, OPTIONS, translate.language)
    out.print(f"\n{summary}\n", markup=False, highlight=False, soft_wrap=True)
    for each in pages:
        out.print(translate(each), markup=False, highlight=False, soft_wrap=True)
