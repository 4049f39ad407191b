"""Tasks of asyncio that end together."""

from __future__ import annotations

import asyncio
from typing import Any


async def end(*tasks: asyncio.Future[Any]) -> None:
    """Cancel tasks and wait for their end; what they raise is nobody's concern any more."""
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
    for task in tasks:
        if not task.cancelled():
            task.exception()


async def first(*tasks: asyncio.Task[Any]) -> None:
    """Wait until one task is over, then end the others; an error of the first goes on."""
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        await end(*tasks)
