"""Tasks that end together, also those that lose a cancellation."""

from __future__ import annotations

import asyncio

import pytest

from unspool.server import waiting


def test_a_task_that_loses_a_cancellation_is_cancelled_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "AGAIN", 0.01)
    lost: list[bool] = []

    async def stubborn() -> None:
        while True:
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                if len(lost) == 2:
                    raise
                lost.append(True)

    async def run() -> None:
        task = asyncio.create_task(stubborn())
        await asyncio.sleep(0)
        await asyncio.wait_for(waiting.end(task), 30)
        assert task.cancelled()

    asyncio.run(run())
    assert len(lost) == 2


def test_an_error_at_the_end_is_nobodys_concern() -> None:
    async def failing() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            raise OSError("too late")

    async def run() -> None:
        task = asyncio.create_task(failing())
        await asyncio.sleep(0)
        await waiting.end(task)

    asyncio.run(run())
