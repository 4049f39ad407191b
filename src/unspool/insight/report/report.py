"""Report: everything that one X-ray says, and the ways to show it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from unspool.insight.report.advice import PYTHON, Spelling
from unspool.insight.report.contract import Content
from unspool.insight.report.terminal import summarize
from unspool.language import ENGLISH


@dataclass(frozen=True, eq=False)
class Report(Content):
    """The result of `unspool.xray`: print it, save it as a page, or read its numbers. A notebook shows the page.

    Example:
        >>> report = unspool.xray(model, batch)  # doctest: +SKIP
        >>> print(report)  # the verdicts, the most important first  # doctest: +SKIP
        >>> report.save("xray.html")  # doctest: +SKIP
        >>> report.numbers["flow"]["horizon"]  # doctest: +SKIP
    """

    def __str__(self) -> str:
        return summarize(self)

    def save(self, path: str | os.PathLike[str], spelling: Spelling = PYTHON, language: str = ENGLISH) -> Path:
        """Write the report as one HTML file that opens without a network.

        Args:
            path: the file; it is written whole or not at all.
            spelling: how settings are written; by default as in Python.
            language: `en` or `zh`.

        Returns:
            The path.

        Example:
            >>> report.save("xray.html")  # doctest: +SKIP
        """
        from unspool.insight.report.page import write_report  # brings plotly, which takes a second

        return write_report(self, path, spelling, language)

    def _repr_html_(self) -> str:
        from unspool.insight.report.notebook import frame
        from unspool.insight.report.page import render

        return frame(render(self), self.title)
