"""How much is served: sessions, those who wait for one, queues and time."""

from __future__ import annotations

import asyncio
import json
import threading
from pathlib import Path
from typing import Any

import pytest
from tests.server.serving import client_of, opened, refused

from unspool.server.jobs import Call
from unspool.server.memory_store import MemoryStore
from unspool.server.metrics import Metrics
from unspool.server.refusals import RefusalError
from unspool.server.service import Service
from unspool.server.sessions import MOST_WAITING, Entry


def test_too_many_sessions_are_refused(book: Path) -> None:
    with client_of(book, max_sessions=2) as client:
        first = opened(client)
        opened(client)
        refused(client.post("/v1/sessions", json={}), 429, "too_many_sessions")
        refused(client.post(f"/v1/sessions/{first}/fork"), 429)
        client.delete(f"/v1/sessions/{first}")
        opened(client)


def test_sessions_expire_and_the_least_recently_used_makes_room() -> None:
    now, model, session = [0.0], Any, Any
    store = MemoryStore(2, idle=100, spare=30, metrics=Metrics(), clock=lambda: now[0])

    def open_one() -> Entry:
        return asyncio.run(store.open(b"me", model, session))  # type: ignore[arg-type]

    def find(entry: Entry, owner: bytes = b"me") -> Entry:
        return asyncio.run(store.find(entry.id, owner))

    first, second = open_one(), open_one()
    now[0] = 20
    find(first)
    with pytest.raises(RefusalError, match="all in use"):
        open_one()
    now[0] = 40
    third = open_one()
    with pytest.raises(RefusalError, match="no such session"):
        find(second)
    find(first)
    with pytest.raises(RefusalError, match="no such session"):
        find(first, b"you")
    now[0] = 141
    store.sweep()
    assert len(store) == 0
    assert third.id != first.id


def test_a_long_request_leaves_its_session_the_last_to_go() -> None:
    """One request begins first and ends last; the session that nobody has used since makes room."""
    now = [0.0]
    store = MemoryStore(2, idle=100, spare=30, metrics=Metrics(), clock=lambda: now[0])

    async def run() -> None:
        long, short = [await store.open(b"me", Any, Any) for _ in range(2)]  # type: ignore[arg-type]
        async with store.using(long.id, b"me"):
            await store.find(short.id, b"me")
            now[0] = 40
        await store.open(b"me", Any, Any)  # type: ignore[arg-type]
        assert (await store.find(long.id, b"me")) is long
        with pytest.raises(RefusalError, match="no such session"):
            await store.find(short.id, b"me")
        async with store.using(long.id, b"me"):
            await store.drop(long)
        assert len(store) == 1

    asyncio.run(run())


def test_few_requests_wait_for_one_session() -> None:
    store = MemoryStore(2, idle=100, spare=30, metrics=Metrics())

    async def run() -> None:
        entry, free, served = await store.open(b"me", Any, Any), asyncio.Event(), list[int]()  # type: ignore[arg-type]

        async def use(number: int) -> None:
            async with store.using(entry.id, b"me"):
                await free.wait()
                served.append(number)

        tasks = [asyncio.create_task(use(number)) for number in range(MOST_WAITING + 3)]
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        tasks[1].cancel()  # one who leaves makes room for another
        await asyncio.sleep(0)
        tasks.append(asyncio.create_task(use(100)))
        await asyncio.sleep(0)
        free.set()
        found = await asyncio.gather(*tasks, return_exceptions=True)
        codes = [one.code for one in found if isinstance(one, RefusalError)]
        assert codes == ["session_busy"] * 2
        assert served == [0, *range(2, MOST_WAITING + 1), 100]

    asyncio.run(run())


def test_a_full_queue_and_a_slow_model_are_told(book: Path) -> None:
    """The only worker is held; what finds no room is refused at once, and what waits too long after its time."""
    held, free = threading.Event(), threading.Event()

    def hold_up() -> None:
        held.set()
        free.wait()

    with client_of(book, queue=1, batch_size=1, timeout=0.3) as client:
        service: Service = client.service  # type: ignore[attr-defined]
        batcher = service.models["run"].batcher

        async def hold() -> None:
            batcher.submit(Call(hold_up))

        client.portal.call(hold)  # type: ignore[union-attr]
        held.wait()
        ask = {"model": "run", "prompt": "a", "max_tokens": 1}
        results: list[Any] = []
        threads = [
            threading.Thread(target=lambda: results.append(client.post("/v1/completions", json=ask))) for _ in range(4)
        ]
        for thread in threads:
            thread.start()
        timer = threading.Timer(0.6, free.set)  # a job with a session is waited for until the worker leaves it
        timer.start()
        for thread in threads:
            thread.join()
        codes = sorted(refused(answer, 503)["code"] for answer in results)
        assert codes == ["queue_full", "queue_full", "timeout", "timeout"]
        assert client.post("/v1/completions", json=ask).status_code == 200


def test_a_slow_body_is_given_up(book: Path) -> None:
    with client_of(book, timeout=0.2) as client:

        async def slow() -> list[Any]:
            sent: list[Any] = []
            waiting = asyncio.Event()

            async def receive() -> Any:
                await waiting.wait()

            async def send(message: Any) -> None:
                sent.append(message)

            headers = [(b"host", b"127.0.0.1"), (b"content-type", b"application/json")]
            scope = {"type": "http", "method": "POST", "path": "/v1/predict", "headers": headers, "query_string": b""}
            await client.app(scope, receive, send)
            return sent

        start, body = client.portal.call(slow)  # type: ignore[union-attr]
        assert start["status"] == 408
        assert json.loads(body["body"])["error"]["code"] == "slow_body"
