"""Answers: JSON, bytes and server-sent events, and what a route's function is given."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from unspool.server.refusals import RefusalError, explain
from unspool.server.strict_json import dump, dump_in_parts
from unspool.server.waiting import aside, count, first

HEADERS = {"cache-control": "no-store", "x-content-type-options": "nosniff"}


@dataclass(frozen=True)
class Asked:
    """A request whose body has been checked."""

    owner: bytes  # of the sessions that it may use
    body: Any
    names: Mapping[str, str]  # in the path
    deadline: float  # by the loop's clock


def answer(value: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """A value as JSON."""
    return Response(dump(value), status, {**HEADERS, **(headers or {})}, "application/json")


async def answer_large(value: Mapping[str, Any], status: int = 200) -> Response:
    """An object that may be large as JSON, which is made in a thread then."""
    return Response(await dump_aside(value), status, HEADERS, "application/json")


async def dump_aside(value: Mapping[str, Any]) -> bytes:
    """An object as JSON; in a thread where it is large."""
    return await aside(count(value), dump_in_parts, value)


def refuse(refusal: RefusalError) -> Response:
    """What is said to one whose request is not served."""
    return answer(refusal.body(), refusal.status, refusal.headers)


def blob(data: bytes | str, media: str) -> Response:
    """Bytes, or text that is not JSON."""
    return Response(data, 200, HEADERS, media)


class EventStream:
    """Server-sent events; an error on the way is the last of them.

    Args:
        events: Values, each of which becomes an event.
        close: Is called in the end, however it comes: when all is sent, when the client has gone, when it stalls.
        last: What ends the stream when all went well.
    """

    def __init__(
        self, events: AsyncIterator[Any], close: Callable[[], Awaitable[None]], last: str | None = "[DONE]"
    ) -> None:
        self._events, self.close, self._last = events, close, last

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await first(asyncio.create_task(self._send(scope, send)), asyncio.create_task(gone(receive)))
        finally:
            await self.close()

    async def _send(self, scope: Scope, send: Send) -> None:
        headers = {**HEADERS, "content-type": "text/event-stream; charset=utf-8", "x-accel-buffering": "no"}
        pairs = [(name.encode(), value.encode()) for name, value in headers.items()]
        await send({"type": "http.response.start", "status": 200, "headers": pairs})
        async for data in self._lines(scope):
            await send({"type": "http.response.body", "body": b"data: " + data + b"\n\n", "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _lines(self, scope: Scope) -> AsyncIterator[bytes]:
        try:
            async for event in self._events:
                yield dump(event)
            if self._last is not None:
                yield self._last.encode()
        except Exception as error:
            refusal = explain(error)
            scope["unspool"]["error"] = refusal.code  # the status has been sent, and the log tells this as well
            yield dump(refusal.body())


async def gone(receive: Receive) -> None:
    """Wait until the client has gone."""
    while (await receive())["type"] != "http.disconnect":
        pass
