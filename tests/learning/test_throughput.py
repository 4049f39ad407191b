"""Throughput: mean loss and speed since the last report, by a clock that stands still."""

from __future__ import annotations

import math
import time

import pytest

from unspool.learning.throughput import LOG_EVERY, REPORT_EVERY, Throughput


def test_reports_are_of_the_time_since_the_last(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    found = Throughput()
    found.count(6.0, 2)
    found.count(2.0, 6)
    assert not found.is_due()
    now[0] += REPORT_EVERY
    assert found.is_due()
    now[0] = 102.0
    assert found.report() == (1.0, 4.0, False)
    assert not found.is_due()
    now[0] = 104.0
    loss, speed, _ = found.report()
    assert math.isnan(loss)
    assert speed == 0
    found.count(3.0, 3)
    now[0] = 110.0
    found.pause(5.0)  # an evaluation took that long
    assert found.report() == (1.0, 3.0, True)
    assert LOG_EVERY < 10
    now[0] = 111.0
    assert not found.report()[2]
