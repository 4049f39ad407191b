"""Pace: how fast training goes on, and when that is worth a word."""

from __future__ import annotations

import math
import time

#: Seconds between two words about steps; and between two of them that are kept.
TELL, KEEP = 0.25, 5.0


class Pace:
    """Loss and units since the last word."""

    def __init__(self) -> None:
        self._told = self._kept = time.monotonic()
        self._loss = self._units = 0.0

    def count(self, loss: float, units: float) -> None:
        """A loss, summed over so many units, is added."""
        self._loss += loss
        self._units += units

    def pause(self, seconds: float) -> None:
        """Time that was not spent on steps."""
        self._told += seconds

    def is_due(self) -> bool:
        """Whether the last word is old enough."""
        return time.monotonic() - self._told >= TELL

    def take(self) -> tuple[float, float, bool]:
        """The mean loss, units a second, and whether to keep this word; then all is counted anew."""
        now = time.monotonic()
        loss = self._loss / self._units if self._units else math.nan
        speed, keep = self._units / (now - self._told), now - self._kept >= KEEP
        self._told, self._kept = now, now if keep else self._kept
        self._loss = self._units = 0.0
        return loss, speed, keep
