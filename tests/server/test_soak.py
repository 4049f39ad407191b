"""Twice the clients that there is room for: nobody sees another's state, and every refusal is a clean one."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from tests.server.process import server
from tests.server.soak import LIMITS, Soak, Soaked

import unspool


def soaked(runs: list[Path], seconds: float) -> Soaked:
    limits = [word for name, value in LIMITS.items() for word in (name, value)]
    with server(*runs, *limits, "--no-access-log", "--threads", 1) as running:
        found = asyncio.run(Soak(running.url, running.process.pid, unspool.load(runs[1])).run(seconds))
        assert running.process.poll() is None
    assert found.wrong == []
    assert found.statuses[429] > 0
    assert found.statuses[503] > 0
    assert found.statuses[200] > 10 * seconds
    return found


@pytest.mark.parametrize("seconds", [60, pytest.param(600, marks=pytest.mark.long)])
def test_a_soak_at_twice_the_capacity(exact_sum: Path, book: Path, seconds: int, record_property: Any) -> None:
    found = soaked([exact_sum, book], seconds)
    record_property("soak", f"{seconds} s: {found}")
    assert abs(found.drift) < 0.02
