"""Tasks of asyncio that end together, and work that leaves the loop to others."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

#: Characters, numbers or bytes from which something is done in a thread: the loop has a thousand connections.
LARGE = 16_384
#: Seconds after which a task that has not ended is cancelled again.
AGAIN = 1.0
T = TypeVar("T")


async def end(*tasks: asyncio.Future[Any]) -> None:
    """Cancel tasks and wait for their end; what they raise is nobody's concern any more.

    They are cancelled again and again: a library may lose a cancellation that meets a timeout of its own.
    """
    left = set(tasks)
    while left:
        for task in left:
            task.cancel()
        _, left = await asyncio.wait(left, timeout=AGAIN)
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


async def aside(size: int, function: Callable[..., T], *arguments: Any) -> T:
    """What a function gives; in a thread where there is much to do."""
    return await asyncio.to_thread(function, *arguments) if size > LARGE else function(*arguments)


def count(value: Any) -> int:
    """About how many numbers or characters a value of JSON has; lists are counted by their first items."""
    if isinstance(value, dict):
        return sum(map(count, value.values()))
    if isinstance(value, list):
        return len(value) * max(1, count(value[0])) if value else 0
    return len(value) if isinstance(value, str) else 1
