"""Below the routes: connections without a descriptor, requests that are no HTTP, messages that are no UTF-8."""

from __future__ import annotations

import asyncio
import errno
import json
import logging
import os
import pickle
import socket
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.server.process import SECONDS, Running, server
from websockets.sync.client import connect

from unspool.server.listening import QUIET, Listening, listen
from unspool.server.settings import ServeSettings


@pytest.fixture(scope="module")
def running(book: Path) -> Iterator[Running]:
    with server(book, "--no-access-log") as found:
        yield found


def address(running: Running) -> tuple[str, int]:
    host, port = running.url.removeprefix("http://").split(":")
    return host, int(port)


def ended(running: Running) -> str:
    """What a server has logged until its end."""
    running.process.terminate()
    _, log = running.process.communicate(timeout=SECONDS)
    return log


def ask(wire: socket.socket) -> bytes:
    """What comes back, whether the connection has been refused meanwhile or not."""
    try:
        wire.sendall(b"GET /health HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n")
        return wire.recv(65536)
    except ConnectionError:
        return b""


@pytest.mark.skipif(sys.platform != "linux", reason="the limit of another process is set on Linux alone")
def test_without_descriptors_connections_are_refused_and_later_served_again(book: Path) -> None:
    import resource

    with server(book, "--no-access-log") as running, ExitStack() as stack:
        assert httpx.get(f"{running.url}/health").status_code == 200
        used = len(os.listdir(f"/proc/{running.process.pid}/fd"))
        _, hard = resource.prlimit(running.process.pid, resource.RLIMIT_NOFILE)
        resource.prlimit(running.process.pid, resource.RLIMIT_NOFILE, (used + 5, hard))
        wires = [stack.enter_context(socket.create_connection(address(running), SECONDS)) for _ in range(60)]
        answers = [ask(wire) for wire in wires]
        served = sum(answer.startswith(b"HTTP/1.1 200") for answer in answers)
        refused = sum(answer.startswith(b"HTTP/1.1 503") for answer in answers)
        assert 1 <= served <= 10
        assert refused >= 40  # a connection may be closed before its answer is read
        head, _, body = next(answer for answer in answers if b" 503 " in answer).partition(b"\r\n\r\n")
        assert b"retry-after" in head
        assert json.loads(body)["error"]["code"] == "connections"
        stack.close()
        resource.prlimit(running.process.pid, resource.RLIMIT_NOFILE, (hard, hard))
        with httpx.Client(transport=httpx.HTTPTransport(retries=5)) as client:
            assert client.get(f"{running.url}/health", timeout=SECONDS).status_code == 200
        log = ended(running)
    assert log.count("no file descriptor is left") == 1
    assert "Traceback" not in log
    assert len(log.splitlines()) == 1


class Exhausted(Listening):
    """A socket that can accept nothing, and open nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.now, self.tries = 0.0, 0
        self.clock = lambda: self.now

    def _accept(self) -> Any:
        self.tries += 1
        raise OSError(errno.EMFILE, "Too many open files")


def test_a_socket_without_a_reserve_lets_asyncio_pause_and_tells_it_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(os, "open", lambda *_: (_ for _ in ()).throw(OSError(errno.EMFILE, "Too many open files")))
    with Exhausted() as found, caplog.at_level(logging.WARNING, "unspool.server"):
        for now, expected in ((0.0, OSError), (0.1, BlockingIOError), (0.6, OSError), (QUIET, OSError)):
            found.now = now
            with pytest.raises(expected) as caught:
                found.accept()
            assert (caught.value.errno == errno.EMFILE) == (expected is OSError)
        assert found.tries == 4
    assert len(caplog.records) == 2  # at first, and a minute later


def test_a_socket_goes_to_workers_as_what_it_is() -> None:
    with listen(ServeSettings(port=0)) as found:
        if sys.platform != "win32":
            assert isinstance(found, Listening)
            rebuild, (duplicate, *shape) = found.__reduce_ex__(pickle.HIGHEST_PROTOCOL)
            with rebuild(duplicate, *shape) as other:
                assert isinstance(other, Listening)
                assert other.getsockname() == found.getsockname()


@pytest.mark.parametrize(
    "data",
    [b"\x00\xff\x16\x03\x01 \r\n\r\n", b"POST /v1/predict HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: -5\r\n\r\n"],
    ids=["binary", "length"],
)
def test_what_is_no_http_is_refused_in_the_one_form(running: Running, data: bytes) -> None:
    with socket.create_connection(address(running), SECONDS) as wire:
        wire.sendall(data)
        answer = b""
        while piece := wire.recv(65536):
            answer += piece
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400 Bad Request\r\n")
    assert b"content-type: application/json" in head
    error = json.loads(body)["error"]
    assert (error["code"], error["type"]) == ("invalid_http", "invalid_request_error")


@pytest.mark.parametrize("pieces", [[b"\xff\xfe"], [b'{"do": "', b"\xc3\x28", b'"}']], ids=["whole", "fragments"])
def test_a_message_that_is_no_utf_8_closes_the_socket_and_leaves_no_trace(book: Path, pieces: list[bytes]) -> None:
    with server(book, "--no-access-log") as running:
        session = httpx.post(f"{running.url}/v1/sessions", json={}).json()["id"]
        with connect(f"{running.url.replace('http', 'ws')}/v1/sessions/{session}/ws") as talking:
            with talking.protocol_mutex if hasattr(talking, "protocol_mutex") else ExitStack():
                protocol = talking.protocol
                protocol.send_text(pieces[0], fin=len(pieces) == 1)
                for place, piece in enumerate(pieces[1:], 2):
                    protocol.send_continuation(piece, fin=place == len(pieces))
                talking.socket.sendall(b"".join(protocol.data_to_send()))
            talking.recv_events_thread.join(SECONDS)
            assert talking.protocol.close_rcvd is not None
            assert talking.protocol.close_rcvd.code == 1007
        assert httpx.get(f"{running.url}/v1/sessions/{session}").status_code == 200
        assert ended(running) == ""


def test_asyncio_accepts_by_the_socket_itself() -> None:
    """The refusals above depend on it."""

    async def run() -> type:
        with listen(ServeSettings(port=0)) as found:
            serving = await asyncio.get_running_loop().create_server(asyncio.Protocol, sock=found)
            kinds = {type(one._sock) for one in serving.sockets}  # type: ignore[attr-defined]
            serving.close()
            return kinds.pop()

    assert asyncio.run(run()) is (socket.socket if sys.platform == "win32" else Listening)
