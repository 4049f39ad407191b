"""Dispatch: from an HTTP request to the function of its route, and from any error to its answer."""

from __future__ import annotations

import asyncio
from typing import Any

from starlette.requests import ClientDisconnect, Request
from starlette.types import ASGIApp, Receive, Scope, Send

from unspool.server.answers import Asked, EventStream, gone, refuse
from unspool.server.refusals import RefusalError, explain
from unspool.server.routes import Route
from unspool.server.schema import check
from unspool.server.service import Service
from unspool.server.strict_json import parse
from unspool.server.texts import timed_out
from unspool.server.waiting import aside, end

#: Closes the connection, so that the rest of a body is not read.
CLOSE = {"connection": "close"}


class Endpoint:
    """One route as an ASGI app. The guard has checked the caller before and says who it is.

    Args:
        service: What is served.
        route: Of the table.
    """

    def __init__(self, service: Service, route: Route) -> None:
        self._service, self._route = service, route

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        scope["unspool"]["route"] = self._route.path
        try:
            answer = await self._answer(request)
        except ClientDisconnect:
            return
        except Exception as error:
            answer = refuse(explain(error))
        await answer(scope, receive, send)

    async def _answer(self, request: Request) -> ASGIApp:
        deadline = asyncio.get_running_loop().time() + self._service.settings.timeout
        data = await self._read(request, deadline)
        body = await aside(len(data), self._check, data, request)
        asked = Asked(request.scope["unspool"]["owner"], body, request.path_params, deadline)
        try:
            async with asyncio.timeout_at(deadline):
                return await self._call(asked, request)
        except TimeoutError:
            raise timed_out() from None

    async def _call(self, asked: Asked, request: Request) -> ASGIApp:
        """The answer of the route's function, which is cancelled when the client has gone."""
        calling = asyncio.ensure_future(self._route.call(self._service, asked))
        leaving = asyncio.create_task(gone(request.receive))
        try:
            await asyncio.wait({calling, leaving}, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            await end(calling, leaving)
            await _close(calling)
            raise
        if not calling.done():
            await end(calling, leaving)
            await _close(calling)
            raise ClientDisconnect
        await end(leaving)
        try:
            return calling.result()
        finally:  # an error has this frame, and the task the error: memory would wait for the collector of cycles
            del calling, leaving

    async def _read(self, request: Request, deadline: float) -> bytes:
        most, found = self._service.settings.max_body, bytearray()
        length = request.headers.get("content-length", "0")
        if not (length.isascii() and length.isdigit()):
            raise RefusalError(400, "The header Content-Length is not a number.", "invalid_header")
        if len(length) > 18 or int(length) > most:
            raise _too_large(most)
        try:
            async with asyncio.timeout_at(deadline):
                async for piece in request.stream():
                    found += piece
                    if len(found) > most:
                        raise _too_large(most)
        except TimeoutError:
            raise RefusalError(408, "The body came too slowly.", "slow_body", headers=CLOSE) from None
        return bytes(found)

    def _check(self, data: bytes, request: Request) -> Any:
        """The body as the route's function gets it."""
        wanted = self._route.reads
        if wanted is None:
            return None
        if not data and self._route.may_be_empty:
            return {}
        given = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if given != wanted:
            raise RefusalError(
                415, f"The body is not of the type {wanted}. Send the header Content-Type: {wanted}.", "media_type"
            )
        return data if self._route.body is None else check(self._route.body, parse(data))


async def _close(calling: asyncio.Future[ASGIApp]) -> None:
    """Give back what an answer holds that nobody will get: it came in the moment in which it was given up."""
    if not calling.cancelled() and calling.exception() is None and isinstance(stream := calling.result(), EventStream):
        await stream.close()


def _too_large(most: int) -> RefusalError:
    return RefusalError(413, f"The body has more than {most:,} bytes.", "body_too_large", headers=CLOSE)
