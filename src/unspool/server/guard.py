"""Guard: who may ask, by Host, Origin and token; and the access log and metrics of every request."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import ipaddress
import json
import logging
import time
from typing import Any

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from unspool.server.answers import refuse
from unspool.server.metrics import SECONDS
from unspool.server.refusals import RefusalError, explain
from unspool.server.service import Service
from unspool.server.settings import ServeSettings, is_local

access = logging.getLogger("unspool.access")
#: Paths that need no token: what watches a service has none, and the page asks for it.
OPEN = ("/health", "/ready", "/")
#: How paths begin that need no token: the page's own files, and links that are signed.
OPEN_FOLDERS = ("/page/", "/v1/pages/")
#: Headers of a request, and their bytes.
MOST_HEADERS, HEADER_BYTES = 128, 32_768
#: The status of a request whose client has left before there was an answer, in the log and the metrics.
LEFT = 499
#: Before the token in a protocol of a WebSocket.
TOKEN_PROTOCOL = "unspool.token."
#: Seconds beyond the time of a request in which its answer may still be sent.
GRACE = 5.0


class Guard:
    """Stands before every route.

    Args:
        app: The routes.
        service: What is served.
    """

    def __init__(self, app: ASGIApp, service: Service) -> None:
        self._app, self._service, self._settings = app, service, service.settings

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        began, seen = time.perf_counter(), Seen(send)
        scope["unspool"] = {"route": "other", "owner": b""}
        try:
            await self._serve(scope, receive, seen)
        finally:
            self._note(scope, seen, time.perf_counter() - began)

    async def _serve(self, scope: Scope, receive: Receive, seen: Seen) -> None:
        try:
            scope["unspool"]["owner"] = find_owner(scope, self._settings)
            if scope["type"] == "websocket":
                await self._app(scope, receive, seen)
                return
            async with asyncio.timeout(self._settings.timeout + GRACE):
                await self._app(scope, receive, seen)
        except TimeoutError:  # a client that does not read; what has begun is cut off
            scope["unspool"]["error"] = "timeout"
            await _refuse(RefusalError(503, "The request took too long.", "timeout"), scope, receive, seen)
        except Exception as error:
            await _refuse(explain(error), scope, receive, seen)

    def _note(self, scope: Scope, seen: Seen, seconds: float) -> None:
        route, method = scope["unspool"]["route"], scope.get("method", "WEBSOCKET")
        method, status = method if method in METHODS else "OTHER", seen.status or LEFT
        self._service.metrics.count("unspool_requests_total", route=route, method=method, status=str(status))
        self._service.metrics.observe("unspool_request_seconds", seconds, SECONDS, route=route)
        if self._settings.access_log:
            # the route as it stands in the table: a path has the id of a session, which is a secret
            told = {"time": round(time.time(), 3), "method": method, "route": route, "status": status}
            client = (scope.get("client") or ("",))[0]
            more = {"ms": round(1000 * seconds, 3), "bytes": seen.size, "client": client}
            ended = {"error": scope["unspool"]["error"]} if "error" in scope["unspool"] else {}
            access.info(json.dumps({**told, **more, **ended}))


METHODS = ("GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH", "WEBSOCKET")


class Seen:
    """Sends, and remembers the status and the size of an answer."""

    def __init__(self, send: Send) -> None:
        self._send, self.status, self.size = send, 0, 0

    async def __call__(self, message: Message) -> None:
        kind = message["type"]
        if kind in ("http.response.start", "websocket.http.response.start"):
            self.status = message["status"]
        elif kind == "websocket.accept":
            self.status = 101
        elif kind == "websocket.close" and not self.status:
            self.status = 403
        self.size += len(message.get("body", b""))
        await self._send(message)


async def _refuse(refusal: RefusalError, scope: Scope, receive: Receive, seen: Seen) -> None:
    """Answer with an error, if no answer has begun."""
    if seen.status:
        return
    if scope["type"] == "http":
        await refuse(refusal)(scope, receive, seen)
    elif "websocket.http.response" in scope.get("extensions", {}):
        answer = refuse(refusal)
        await seen({"type": "websocket.http.response.start", "status": refusal.status, "headers": answer.raw_headers})
        await seen({"type": "websocket.http.response.body", "body": answer.body})
    else:
        await seen({"type": "websocket.close", "code": 1008})


def find_owner(scope: Scope, settings: ServeSettings) -> bytes:
    """Who asks: a digest of the token, or nothing where the server has none.

    Raises:
        RefusalError: 431: there are too many headers; 403: the Host or the Origin is not allowed; 401: the token is
            missing or wrong.
    """
    _check_size(scope)
    headers = Headers(scope=scope)
    _check_host(headers, settings)
    _check_origin(headers)
    if not settings.token or scope["path"] in OPEN or scope["path"].startswith(OPEN_FOLDERS):
        return b""
    given = hashlib.sha256(_find_token(scope, headers)).digest()
    # all are compared, so that the time does not say which is near
    found = [one for one in settings.owners if hmac.compare_digest(one, given)]
    if not found:
        challenge = {"www-authenticate": "Bearer"}
        message = "The token is missing or wrong. Send the header Authorization: Bearer TOKEN."
        raise RefusalError(401, message, "invalid_token", headers=challenge)
    return given


def _find_token(scope: Scope, headers: Headers) -> bytes:
    """The token of a request, or nothing. Browsers send no header of their own with a WebSocket, but protocols."""
    kind, _, token = headers.get("authorization", "").partition(" ")
    if kind.lower() == "bearer":
        return token.strip().encode()
    for protocol in scope.get("subprotocols", ()):
        if protocol.startswith(TOKEN_PROTOCOL):
            return _decoded(protocol.removeprefix(TOKEN_PROTOCOL))
    return b""


def _decoded(text: str) -> bytes:
    """Of base64 for addresses, with or without its padding; what is none is no token."""
    try:
        return base64.b64decode(text.rstrip("=") + "=" * (-len(text.rstrip("=")) % 4), altchars=b"-_", validate=True)
    except ValueError:
        return b""


def _check_size(scope: Scope) -> None:
    """Refuse floods of headers, which each of those who read them would go through."""
    size = sum(len(name) + len(value) for name, value in scope["headers"])
    if len(scope["headers"]) > MOST_HEADERS or size > HEADER_BYTES:
        message = f"The request has more than {MOST_HEADERS} headers, or more than {HEADER_BYTES:,} bytes of them."
        raise RefusalError(431, message, "headers_too_large")


def _check_host(headers: Headers, settings: ServeSettings) -> None:
    """A page elsewhere can have its name point here (DNS rebinding), but it cannot say another Host than that name."""
    given = headers.getlist("host")
    name = _host_name(given[0]) if len(given) == 1 else ""
    if not is_allowed(name, settings):
        raise RefusalError(403, "The Host is not one of this server. Call it by its address.", "host_not_allowed")


def is_allowed(name: str, settings: ServeSettings) -> bool:
    """Whether the server may be called by this name."""
    if name in settings.allow_host or name == settings.host:
        return True
    if is_local(settings.host):
        return is_local(name)
    try:  # an address is no name that could point elsewhere
        ipaddress.ip_address(name)
    except ValueError:
        return name == "localhost"
    return True


def _host_name(host: str) -> str:
    """A Host without its port."""
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0].lower()


def _check_origin(headers: Headers) -> None:
    """Pages of other places may not use the server from a browser."""
    origin: Any = headers.get("origin")
    if origin is not None and origin.partition("://")[2].lower() != headers.get("host", "").lower():
        raise RefusalError(403, "Pages of other origins may not use this server.", "origin_not_allowed")
