"""The ASGI app: routes behind the guard."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, WebSocketRoute
from starlette.routing import Route as HttpRoute
from starlette.types import ASGIApp, Receive, Scope, Send

from unspool.server.answers import Asked, answer, refuse
from unspool.server.dispatch import Endpoint
from unspool.server.guard import Guard
from unspool.server.openapi import describe
from unspool.server.refusals import RefusalError
from unspool.server.routes import Route, make_routes
from unspool.server.service import Service
from unspool.server.sockets import SOCKET, talk
from unspool.server.waiting import end


def make_app(service: Service, version: str) -> ASGIApp:
    """The app of a service.

    Args:
        service: What is served.
        version: Of unspool, for the document.

    Returns:
        An ASGI app, which ends the workers when its lifespan ends.
    """
    table = make_routes(service.settings)
    document = describe(table, version)

    async def show_document(service: Service, asked: Asked) -> Response:  # noqa: ARG001
        """This document."""
        return answer(document)

    table = (*table, Route("GET", "/openapi.json", show_document))
    paths = dict.fromkeys(route.path for route in table)
    routes: list[BaseRoute] = [_mount(service, [one for one in table if one.path == path]) for path in paths]
    routes.append(WebSocketRoute(SOCKET, partial(talk, service)))
    handlers: Any = {HTTPException: _refuse}
    app = Starlette(routes=routes, exception_handlers=handlers, lifespan=partial(_live, service))
    app.router.redirect_slashes = False
    return Guard(app, service)


def _mount(service: Service, routes: Sequence[Route]) -> HttpRoute:
    """All methods of one path, so that a refusal of another names them all."""
    methods = Methods({route.method: Endpoint(service, route) for route in routes})
    return HttpRoute(routes[0].path, methods, methods=[route.method for route in routes])


class Methods:
    """The endpoints of one path."""

    def __init__(self, endpoints: Mapping[str, Endpoint]) -> None:
        self._endpoints = endpoints

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        method = "GET" if scope["method"] == "HEAD" else scope["method"]
        await self._endpoints[method](scope, receive, send)


async def _refuse(request: Request, error: HTTPException) -> Response:  # noqa: ARG001
    """What starlette refuses, in our form."""
    said = {404: ("There is no such route.", "route_not_found"), 405: ("The method is not allowed.", "method")}
    message, code = said.get(error.status_code, (error.detail, "http_error"))
    return refuse(RefusalError(error.status_code, message, code, headers=dict(error.headers or {})))


@asynccontextmanager
async def _live(service: Service, app: Starlette) -> AsyncIterator[None]:  # noqa: ARG001
    tending = asyncio.create_task(service.sessions.tend())
    yield
    await end(tending)
    await asyncio.to_thread(service.close)
    await service.sessions.close()
