"""More clients than there is room for: nobody sees another's state, and every refusal is a clean one."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.server.process import server
from tests.server.soak import Soak, Soaked

import unspool


def soaked(run: Path, seconds: float) -> Soaked:
    """A server with room for eight steppers and two who wait, and forty clients."""
    player = unspool.load(run)

    def after(*inputs: float) -> float:
        session = player.start()
        return [float(session.step([x])[0]) for x in inputs][-1]

    first = after(0)
    per_one, per_step = (after(1000) - first) / 1000, after(0, 0) - first

    def known(sums: Any, counts: Any) -> Any:
        return first + per_one * sums + per_step * (counts - 1)

    limits = ("--batch-size", 8, "--queue", 2, "--max-sessions", 64, "--idle", 2, "--timeout", 5, "--no-access-log")
    with server(run, *limits) as running:
        found = asyncio.run(Soak(running.url, running.process.pid, known).run(seconds, 40))
        assert running.process.poll() is None
    assert found.wrong == []
    assert found.served > 20 * seconds
    print(
        f"{found.served} served, {found.refused} refused, "
        f"p50 {1000 * np.median(found.seconds):.1f} ms, p99 {1000 * np.quantile(found.seconds, 0.99):.1f} ms"
    )
    return found


def test_a_few_seconds_of_too_many_clients(accumulator: Path) -> None:
    soaked(accumulator, 3)


@pytest.mark.long
@pytest.mark.parametrize("seconds", [60, 600])
def test_memory_does_not_grow(accumulator: Path, seconds: int) -> None:
    found = soaked(accumulator, seconds)
    assert found.drift < 0.02
    assert found.refused > 0
