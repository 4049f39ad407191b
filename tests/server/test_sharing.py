"""What callers share: each token has its part of the sessions, and a deleted session ends what is written in it."""

from __future__ import annotations

import asyncio
import json
import math
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient
from tests.server.redis_process import redis_server
from tests.server.serving import client_of, opened, refused, talking
from tests.server.test_redis_store import hold, in_background, service_of

from unspool.server.memory_store import MemoryStore
from unspool.server.metrics import Metrics
from unspool.server.refusals import RefusalError
from unspool.server.settings import ServeSettings

ONE, OTHER = "token-of-one-caller", "token-of-another"


@pytest.fixture(params=["memory", "redis"])
def settings(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[dict[str, Any]]:
    """Of a server whose sessions are in memory, or in Redis."""
    if request.param == "memory":
        yield {}
        return
    with redis_server(tmp_path) as store:
        yield {"redis": store.url}


@contextmanager
def both(book: Path, **settings: Any) -> Iterator[tuple[dict[str, str], dict[str, str], TestClient]]:
    """A server with two tokens, and the headers of each caller."""
    with client_of(book, token=(ONE, OTHER), **settings) as client:
        one, other = ({"authorization": f"Bearer {token}"} for token in (ONE, OTHER))
        yield one, other, client


def test_no_caller_takes_the_sessions_of_another(book: Path, settings: dict[str, Any]) -> None:
    with both(book, max_sessions=5, timeout=20, **settings) as (one, other, client):

        def open_one(headers: dict[str, str]) -> Any:
            return client.post("/v1/sessions", json={}, headers=headers)

        names = [open_one(one).json()["id"] for _ in range(2)]
        answer = open_one(one)
        error = refused(answer, 429, "too_many_sessions")
        wait = int(answer.headers["retry-after"])
        assert 15 <= wait <= 20  # the first may be dropped when nobody has used it for the time of a request
        assert f"You have 2 sessions, all in use. Delete some, or try again in {wait} s." == error["message"]
        own = [open_one(other) for _ in range(2)]
        assert [one.status_code for one in own] == [201, 201]
        refused(open_one(other), 429)
        assert client.delete(f"/v1/sessions/{names[0]}", headers=one).status_code == 204
        assert open_one(one).status_code == 201
        assert client.get(f"/v1/sessions/{own[0].json()['id']}", headers=other).status_code == 200
        text = client.get("/metrics", headers=one).text
        assert "\nunspool_sessions 4\n" in text


def test_room_is_made_among_the_sessions_of_who_asks() -> None:
    now = [0.0]
    store = MemoryStore(2, idle=100, spare=30, metrics=Metrics(), clock=lambda: now[0])

    async def run() -> None:
        def open_one(owner: bytes) -> Any:
            return store.open(owner, Any, Any)  # type: ignore[arg-type]

        theirs = await open_one(b"them")
        now[0] = 10
        first, second = await open_one(b"me"), await open_one(b"me")
        now[0] = 25.5
        with pytest.raises(RefusalError) as caught:
            await open_one(b"me")
        assert caught.value.headers["retry-after"] == str(math.ceil(40 - 25.5))
        async with store.using(first.id, b"me"), store.using(second.id, b"me"):
            with pytest.raises(RefusalError) as caught:
                await open_one(b"me")
            assert caught.value.headers["retry-after"] == "30"
        now[0] = 60
        await open_one(b"me")
        assert await store.find(theirs.id, b"them") is theirs  # it was used longer ago
        assert len(store) == 3
        now[0] = 161
        store.sweep()
        assert [await open_one(b"me") for _ in range(2)]

    asyncio.run(run())


def test_sessions_are_divided_among_the_tokens() -> None:
    shares = [
        ServeSettings(token=tuple(f"token-{n}-{'x' * 8}" for n in range(count))).session_share for count in (0, 1, 3)
    ]
    assert shares == [1024, 1024, 341]
    assert ServeSettings(token=(ONE, OTHER), max_sessions=1).session_share == 1


def wait_until_stoppable(client: TestClient, held: dict[Any, Any]) -> None:
    """Until a request writes in a session."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        entries = [one[1] if isinstance(one, tuple) else one for one in list(held.values())]
        if any(entry.stop is not None for entry in entries):
            return
        time.sleep(0.01)
    raise AssertionError(client)


@pytest.mark.parametrize("stream", [True, False], ids=["events", "whole"])
def test_to_delete_a_session_ends_the_text_that_is_written_in_it(
    book: Path, settings: dict[str, Any], stream: bool
) -> None:
    with ExitStack() as stack:
        first = stack.enter_context(client_of(book, **settings))
        second = stack.enter_context(client_of(book, **settings)) if settings else first  # of another worker
        path = f"/v1/sessions/{opened(first)}"
        first.post(f"{path}/feed", json={"input": "the "})
        free = hold(first)
        thread, found = in_background(first, f"{path}/generate", {"max_tokens": 4096, "stream": stream})
        sessions: Any = service_of(first).sessions
        held = sessions._held if settings else sessions._entries
        wait_until_stoppable(first, held)
        entries = [one[1] if isinstance(one, tuple) else one for one in held.values()]
        assert second.delete(path).status_code == 204
        deadline = time.monotonic() + 30
        while not entries[0].deleted and time.monotonic() < deadline:  # another worker hears of it within a second
            time.sleep(0.01)
        free.set()
        thread.join()
        if stream:
            assert found[0].status_code == 200
            *_, last, rest = found[0].text.split("\n\n")
            assert rest == ""
            error = json.loads(last.removeprefix("data: "))["error"]
            assert (error["code"], error["type"]) == ("session_deleted", "not_found_error")
        else:
            refused(found[0], 404, "session_deleted")
        refused(first.get(path), 404, "session_not_found")
        assert not any(job for model in service_of(first).models.values() for job in model.batcher._batch)


def test_to_delete_a_session_ends_the_text_of_a_socket(book: Path) -> None:
    with client_of(book) as client:
        session = opened(client)
        with talking(client, session) as socket:
            socket.send_json({"do": "feed", "input": "the "})
            socket.receive_json()
            free = hold(client)
            socket.send_json({"do": "generate", "id": 1, "max_tokens": 4096})
            sessions: Any = service_of(client).sessions
            wait_until_stoppable(client, sessions._entries)
            client.delete(f"/v1/sessions/{session}")
            free.set()
            while "error" not in (event := socket.receive_json()):
                pass
            assert (event["id"], event["error"]["code"]) == (1, "session_deleted")
            socket.send_json({"do": "step", "inputs": [1]})
            assert socket.receive_json()["error"]["code"] == "session_not_found"


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        (b"", 201, None),
        (b"{}", 201, None),
        (b'{"at": 3}', 422, "unknown_name"),
        (b"[]", 422, "invalid_value"),
        (b"{", 400, "invalid_json"),
    ],
    ids=str,
)
def test_the_body_of_a_fork_is_checked(book: Path, body: bytes, status: int, code: str | None) -> None:
    with client_of(book) as client:
        path = f"/v1/sessions/{opened(client)}/fork"
        answer = client.post(path, content=body, headers={"content-type": "application/json"} if body else {})
        if status == 201:
            assert answer.status_code == 201
        else:
            refused(answer, status, code)
        refused(client.post(path, content=b"at=3"), 415, "media_type")
        document = client.get("/openapi.json").json()["paths"]["/v1/sessions/{id}/fork"]["post"]
        assert document["requestBody"]["required"] is False
