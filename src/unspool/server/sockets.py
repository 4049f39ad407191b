"""A session over one WebSocket: JSON messages both ways, in order, and a text can be stopped while it is written."""

from __future__ import annotations

import asyncio
import base64
import binascii
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from functools import lru_cache
from typing import Any

from starlette.websockets import WebSocket, WebSocketDisconnect, WebSocketState

from unspool.server import schemas, session_calls
from unspool.server.answers import dump_aside
from unspool.server.refusals import explain, overloaded, unusable
from unspool.server.schema import check
from unspool.server.service import Service
from unspool.server.sessions import Entry
from unspool.server.settings import ServeSettings
from unspool.server.strict_json import parse
from unspool.server.texts import timed_out
from unspool.server.waiting import aside, end, first

SOCKET = "/v1/sessions/{id}/ws"
#: What a browser offers beside its token, so that there is a protocol to agree on which is no secret.
PROTOCOL = "unspool"
#: Messages that may wait while one is answered.
WAITING = 64
#: Characters of a message's `id`, where it is a text.
LONGEST_NAME = 80
NAME = schemas.optional({"anyOf": [{"type": "integer"}, {"type": "string", "maxLength": LONGEST_NAME}]})


@lru_cache(maxsize=4)  # one for all connections: a thousand of them would be a long walk for the garbage collector
def make_messages(settings: ServeSettings) -> Mapping[str, schemas.Schema]:
    """What can be asked, and with which names beside `do` and `id`."""
    bodies = {
        **{"feed": schemas.feed_body(settings), "step": schemas.step_body(settings)},
        **{
            "generate": schemas.record(_without_stream(settings)),
            "fork": schemas.record({}),
            "state": schemas.record({}),
        },
        "restore": schemas.record({"state": schemas.TEXT}, "state"),
        "stop": schemas.record({}),
    }
    return {name: _message(name, body) for name, body in bodies.items()}


def _without_stream(settings: ServeSettings) -> schemas.Schema:
    """Of a text; here it always comes as it is written."""
    names = schemas.generate_body(settings)["properties"]
    return {name: schema for name, schema in names.items() if name != "stream"}


def _message(name: str, body: schemas.Schema) -> schemas.Schema:
    own = {"do": {"type": "string", "enum": [name]}, "id": NAME, **body["properties"]}
    return schemas.record(own, "do", *body["required"])


async def talk(service: Service, socket: WebSocket) -> None:
    """Answer the messages of one connection until it is closed."""
    socket.scope["unspool"]["route"] = SOCKET
    name, owner = socket.path_params["id"], socket.scope["unspool"]["owner"]
    await service.sessions.find(name, owner)
    await socket.accept(PROTOCOL if PROTOCOL in socket.scope.get("subprotocols", ()) else None)
    await Talk(service, socket, name, owner).run()


class Talk:
    """One connection: what comes is read at once, and answered in order."""

    def __init__(self, service: Service, socket: WebSocket, name: str, owner: bytes) -> None:
        self._service, self._socket, self._name, self._owner = service, socket, name, owner
        self._messages = make_messages(service.settings)
        self._asked: asyncio.Queue[dict[str, Any]] = asyncio.Queue(WAITING)
        self._writing: asyncio.Task[None] | None = None  # the text that can be stopped

    async def run(self) -> None:
        """Read until the client leaves, is idle for too long, or does not read what it is sent."""
        with suppress(WebSocketDisconnect):
            await first(asyncio.create_task(self._answer_all()), asyncio.create_task(self._read_all()))
        if self._socket.client_state == self._socket.application_state == WebSocketState.CONNECTED:
            await self._socket.close(1000)

    async def _read_all(self) -> None:
        while True:
            try:
                async with asyncio.timeout(self._service.settings.idle):
                    message = await self._socket.receive()
            except TimeoutError:
                return
            if message["type"] == "websocket.disconnect":
                return
            await self._take(message)

    async def _take(self, message: Mapping[str, Any]) -> None:
        """Queue a message, or refuse it."""
        name = None
        try:
            data = (message.get("text") or "").encode("utf-8", "surrogatepass") or message.get("bytes") or b""
            value = await aside(len(data), parse, data)
            name = value.get("id") if isinstance(value, dict) else None
            asked = await aside(len(data), self._check, value)
            if asked["do"] == "stop":
                if self._writing is not None:
                    self._writing.cancel()
                return
            self._asked.put_nowait(asked)
        except asyncio.QueueFull:
            await self._send(name, overloaded(f"More than {WAITING} messages wait.").body())
        except Exception as error:
            await self._send(name, explain(error).body())

    def _check(self, value: Any) -> dict[str, Any]:
        do = value.get("do") if isinstance(value, dict) else None
        if not isinstance(do, str) or do not in self._messages:
            raise unusable(f"`do` is none of {', '.join(self._messages)}.", "do")
        found: dict[str, Any] = check(self._messages[do], value)
        return found

    async def _answer_all(self) -> None:
        while True:
            asked = await self._asked.get()
            try:
                await self._answer(asked)
            except WebSocketDisconnect:
                raise
            except Exception as error:
                await self._send(asked["id"], explain(error).body())

    async def _answer(self, asked: dict[str, Any]) -> None:
        timeout = self._service.settings.timeout
        deadline = asyncio.get_running_loop().time() + timeout
        try:
            async with asyncio.timeout_at(deadline + 1):
                async with self._service.sessions.using(self._name, self._owner) as entry:
                    if asked["do"] == "generate":
                        value = await self._generate(entry, asked, deadline)
                    else:
                        value = await CALLS[asked["do"]](self._service, entry, asked)
                await self._send(asked["id"], value)  # when the session is kept
        except TimeoutError:
            raise timed_out() from None

    async def _generate(self, entry: Entry, asked: dict[str, Any], deadline: float) -> dict[str, Any]:
        """Write in a task of its own, which a message can stop; returns how it ended."""
        texts = await session_calls.start_text(entry, asked, deadline)

        async def write() -> None:
            async for event in session_calls.text_events(texts):
                await self._send(asked["id"], event)

        self._writing = asyncio.create_task(write())
        try:
            await asyncio.wait({self._writing})
        finally:
            writing, self._writing = self._writing, None
            await end(writing)
            await texts.close()
        if writing.cancelled():
            return {"finish_reason": "stopped", "position": entry.session.position}
        writing.result()
        return session_calls.text_end(entry, texts)

    async def _send(self, name: Any, value: Mapping[str, Any]) -> None:
        try:
            async with asyncio.timeout(self._service.settings.timeout):
                await self._socket.send_text((await dump_aside({"id": name, **value})).decode())
        except (TimeoutError, RuntimeError):  # a client that does not read, or one that has left
            raise WebSocketDisconnect(1008) from None


async def _fork(service: Service, entry: Entry, asked: dict[str, Any]) -> dict[str, Any]:  # noqa: ARG001
    return {"session": session_calls.describe(service, await session_calls.fork(service, entry))}


async def _save(service: Service, entry: Entry, asked: dict[str, Any]) -> dict[str, Any]:  # noqa: ARG001
    return {"state": base64.b64encode(entry.session.save()).decode()}


async def _restore(service: Service, entry: Entry, asked: dict[str, Any]) -> dict[str, Any]:  # noqa: ARG001
    try:
        data = base64.b64decode(asked["state"], validate=True)
    except (binascii.Error, ValueError) as error:
        raise unusable("`state` is not base64.", "state") from error
    entry.session = entry.model.player.restore(data)
    return {"position": entry.session.position}


CALLS: Mapping[str, Callable[[Service, Entry, dict[str, Any]], Awaitable[dict[str, Any]]]] = {
    **{"feed": session_calls.feed, "step": session_calls.step},
    **{"fork": _fork, "state": _save, "restore": _restore},
}
