"""A light client of HTTP over a bare socket: a soak shares the cores with the server, and must not take them."""

from __future__ import annotations

import asyncio
import json
import re
from typing import Any, NamedTuple

LENGTH = re.compile(rb"content-length: (\d+)")


#: Within which every request is answered.
SECONDS = 30


class Answer(NamedTuple):
    """What came back."""

    status: int
    head: bytes  # in lower case
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Wire:
    """One connection, which is opened anew when it was closed.

    Args:
        url: Of the server.
    """

    def __init__(self, url: str) -> None:
        self.host, port = url.removeprefix("http://").split(":")
        self.port = int(port)
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None

    async def ask(self, method: str, path: str, body: Any = None) -> Answer:
        """A request with a body of JSON, or of the bytes given, and its answer."""
        async with asyncio.timeout(SECONDS):
            await self.send(method, path, body)
            assert self._reader is not None
            head = (await self._reader.readuntil(b"\r\n\r\n")).lower()
            length = LENGTH.search(head)
            found = await self._reader.readexactly(int(length[1])) if length else b""
        if b"connection: close" in head:
            self.close()
        return Answer(int(head[9:12]), head, found)

    async def send(self, method: str, path: str, body: Any = None) -> None:
        """A request alone."""
        if self._writer is None:
            self._reader, self._writer = await asyncio.open_connection(self.host, self.port)
        data = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        head = f"{method} {path} HTTP/1.1\r\nhost: {self.host}\r\ncontent-length: {len(data)}\r\n"
        self._writer.write(head.encode() + b"content-type: application/json\r\n\r\n" + data)
        await self._writer.drain()

    def close(self) -> None:
        """Leave, whatever is on its way."""
        if self._writer is not None:
            self._writer.transport.abort()
        self._reader = self._writer = None
