"""A real server: OpenAI's client, sockets, garbage on the wire, and an orderly end."""

from __future__ import annotations

import contextlib
import json
import signal
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest
from tests.server.process import SECONDS, Running, server
from websockets.sync.client import connect

import unspool
from unspool.server.listening import listen
from unspool.server.settings import ServeSettings

TOKEN = "a-token-of-tests"


@pytest.fixture(scope="module")
def running(book: Path) -> Iterator[Running]:
    with server(book, "--token", TOKEN, "--timeout", 20) as found:
        yield found


@pytest.fixture(scope="module")
def client(running: Running) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{running.url}/v1", api_key=TOKEN, max_retries=0, timeout=SECONDS) as found:
        yield found


def texts(answer: Any) -> list[str]:
    return [choice.text for choice in sorted(answer.choices, key=lambda one: one.index)]


def test_the_openai_client_works_unchanged(client: openai.OpenAI, book: Path) -> None:
    player = unspool.load(book)
    assert [model.id for model in client.models.list()] == ["run"]
    assert client.models.retrieve("run").owned_by == "unspool"
    ask: dict[str, Any] = {"model": "run", "prompt": "the ", "max_tokens": 20, "seed": 4, "temperature": 0.8}
    expected = ["".join(player.generate("the ", 20, seed=4 + n, temperature=0.8)) for n in range(3)]
    assert texts(client.completions.create(**ask, n=3)) == expected
    assert texts(client.completions.create(**ask, n=3)) == expected  # by the same seed again
    parts = list(client.completions.create(**ask, stream=True))
    assert "".join(part.choices[0].text for part in parts) == expected[0]
    assert len(parts) >= 20
    assert parts[-1].choices[0].finish_reason == "length"
    stopped = client.completions.create(**ask, stop=[expected[0][5:7]])
    assert stopped.choices[0].finish_reason == "stop"
    assert expected[0].startswith(stopped.choices[0].text)
    told = client.completions.create(**ask, logprobs=2).choices[0].logprobs
    assert told is not None
    assert "".join(told.tokens or ()) == expected[0]
    assert client.completions.create(**ask, extra_body={"top_k": 1}).choices[0].text == "".join(
        player.generate("the ", 20, top_k=1, temperature=0.8)
    )


def test_errors_are_those_that_the_openai_client_knows(client: openai.OpenAI, running: Running) -> None:
    with pytest.raises(openai.NotFoundError, match="no model"):
        client.completions.create(model="none", prompt="a")
    with pytest.raises(openai.UnprocessableEntityError) as caught:
        client.completions.create(model="run", prompt="a", max_tokens=10**6)
    assert caught.value.param == "max_tokens"
    with (
        openai.OpenAI(base_url=f"{running.url}/v1", api_key="wrong", max_retries=0) as stranger,
        pytest.raises(openai.AuthenticationError),
    ):
        stranger.models.list()


def test_a_socket_of_the_network(running: Running, book: Path) -> None:
    headers = {"authorization": f"Bearer {TOKEN}"}
    session = httpx.post(f"{running.url}/v1/sessions", json={}, headers=headers).json()["id"]
    url = f"{running.url.replace('http', 'ws')}/v1/sessions/{session}/ws"
    own = unspool.load(book).start()
    with connect(url, additional_headers=headers) as talking:
        talking.send(json.dumps({"do": "feed", "input": "the "}))
        expected = own.feed("the ")
        assert expected is not None
        assert json.loads(talking.recv(SECONDS))["output"] == expected.tolist()
    with pytest.raises(Exception, match="401"), connect(url):
        pass


GARBAGE = (
    b"\x00\xff\x16\x03\x01" * 20,
    b"GET /v1/models HTTP/1.1\r\n\r\n",
    b"GET / HTTP/1.1\r\nhost: 127.0.0.1\r\n" + b"x: y\r\n" * 20_000 + b"\r\n",
    b"POST /v1/predict HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: -5\r\n\r\n",
    b"POST /v1/predict HTTP/1.1\r\nhost: 127.0.0.1\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
    b"GET /" + b"a" * 200_000 + b" HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n",
)


@pytest.mark.parametrize("data", GARBAGE, ids=["binary", "no host", "many headers", "length", "chunks", "long path"])
def test_garbage_on_the_wire_is_refused_and_the_server_goes_on(running: Running, data: bytes) -> None:
    address = running.url.removeprefix("http://").split(":")
    with socket.create_connection((address[0], int(address[1])), SECONDS) as wire:
        try:
            wire.sendall(data)
            answer = wire.recv(65536)
        except ConnectionError:
            answer = b""
    assert answer == b"" or 400 <= int(answer.split()[1]) < 500
    assert httpx.get(f"{running.url}/ready").status_code == 200


@pytest.mark.parametrize("head", [b"content-length: 1073741824", b"transfer-encoding: chunked"], ids=["told", "chunks"])
def test_a_gigabyte_is_refused_before_it_is_read(running: Running, head: bytes) -> None:
    place = Path(f"/proc/{running.process.pid}/statm")
    before = int(place.read_text().split()[1]) if place.exists() else 0
    host, port = running.url.removeprefix("http://").split(":")
    first = f"POST /v1/completions HTTP/1.1\r\nhost: {host}\r\nauthorization: Bearer {TOKEN}\r\n".encode()
    piece, answer = b"10000\r\n" + b"x" * 65536 + b"\r\n", b""
    with socket.create_connection((host, int(port)), SECONDS) as wire:
        wire.sendall(first + b"content-type: application/json\r\n" + head + b"\r\n\r\n")
        sent = 0
        try:
            while not answer and sent < 2**30:
                wire.sendall(piece)
                sent += len(piece)
                wire.setblocking(False)
                with contextlib.suppress(BlockingIOError):
                    answer = wire.recv(65536) or b"closed"
                wire.setblocking(True)
        except ConnectionError:
            answer = answer or b"closed"
    assert sent < 2**26
    assert answer == b"closed" or answer.split()[1] == b"413"
    if before:
        assert int(place.read_text().split()[1]) - before < 2**26 // 4096
    assert httpx.get(f"{running.url}/ready").status_code == 200


def test_answers_are_sent_at_once() -> None:
    """asyncio sets TCP_NODELAY on connections of sockets that say their protocol."""
    with listen(ServeSettings(port=0)) as found:
        assert found.proto == socket.IPPROTO_TCP


def test_what_has_begun_is_answered_before_the_end(book: Path) -> None:
    with server(book) as running:
        ask = {"model": "run", "prompt": "the ", "max_tokens": 2000, "seed": 1, "stream": True}
        with httpx.stream("POST", f"{running.url}/v1/completions", json=ask, timeout=SECONDS) as answer:
            lines = answer.iter_lines()
            first = next(lines)
            running.process.send_signal(signal.SIGTERM)
            rest = [first, *lines]
        assert rest[-2:] == ["data: [DONE]", ""]
        assert sum(len(json.loads(line[6:])["choices"][0]["text"]) for line in rest[:-2] if line) == 2000
        assert running.process.wait(SECONDS) == 0
        assert running.process.stderr is not None
        log = running.process.stderr.read()
        assert [json.loads(line)["route"] for line in log.splitlines()] == ["/v1/completions"]
        with pytest.raises(httpx.ConnectError):
            httpx.get(f"{running.url}/health")


def test_a_client_that_leaves_ends_its_text(book: Path) -> None:
    with server(book, "--queue", 1, "--batch-size", 1) as running:
        ask = {"model": "run", "prompt": "the ", "max_tokens": 4000, "stream": True}

        def leave() -> None:
            with httpx.stream("POST", f"{running.url}/v1/completions", json=ask, timeout=SECONDS) as answer:
                next(answer.iter_lines())

        for _ in range(4):  # there is room for two
            thread = threading.Thread(target=leave)
            thread.start()
            thread.join()
        last = httpx.post(
            f"{running.url}/v1/completions", json={**ask, "max_tokens": 5, "stream": False}, timeout=SECONDS
        )
        assert last.status_code == 200
