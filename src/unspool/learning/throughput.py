"""Throughput: mean loss and units per second since the last report, and when the next report is due."""

from __future__ import annotations

import math
import time

#: Seconds between two reports of steps; and between two of them that are logged.
REPORT_EVERY, LOG_EVERY = 0.25, 5.0


class Throughput:
    """Loss and units since the last report."""

    def __init__(self) -> None:
        self._reported = self._logged = time.monotonic()
        self._loss = self._units = 0.0

    def count(self, loss: float, units: float) -> None:
        """Add a loss, summed over so many units."""
        self._loss += loss
        self._units += units

    def pause(self, seconds: float) -> None:
        """Leave out time that was not spent on updates."""
        self._reported += seconds

    def is_due(self) -> bool:
        """Whether it is time for a report."""
        return time.monotonic() - self._reported >= REPORT_EVERY

    def report(self) -> tuple[float, float, bool]:
        """The mean loss, units per second, and whether to log this report; then counting starts again."""
        now = time.monotonic()
        loss = self._loss / self._units if self._units else math.nan
        speed, log = self._units / (now - self._reported), now - self._logged >= LOG_EVERY
        self._reported, self._logged = now, now if log else self._logged
        self._loss = self._units = 0.0
        return loss, speed, log
