"""Sessions in Redis: the bits of the player on any worker, one worker at a time, and no secret in there."""

from __future__ import annotations

import asyncio
import hashlib
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient
from tests.server.redis_process import Store, redis_server
from tests.server.serving import client_of, opened, refused, talking

import unspool
from unspool.server import redis_store
from unspool.server.jobs import Call
from unspool.server.refusals import RefusalError
from unspool.server.service import Service
from unspool.server.settings import ServeSettings

ONE, OTHER = "token-of-one-caller", "token-of-another"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with redis_server(tmp_path_factory.mktemp("redis")) as found:
        yield found


@pytest.fixture
def pair(book: Path, store: Store) -> Iterator[tuple[TestClient, TestClient]]:
    """Clients of two workers with the same store, which is empty."""
    with store.client() as inside, ExitStack() as stack:
        inside.flushall()
        first, second = (
            stack.enter_context(client_of(book, redis=store.url, token=(ONE, OTHER), max_sessions=8)) for _ in range(2)
        )
        for client in (first, second):
            client.headers["authorization"] = f"Bearer {ONE}"
        yield first, second


def service_of(client: TestClient) -> Service:
    found: Service = client.service  # type: ignore[attr-defined]
    return found


def test_any_worker_goes_on_to_the_bits_of_the_player(pair: tuple[TestClient, TestClient], book: Path) -> None:
    first, second = pair
    path, own = f"/v1/sessions/{opened(first)}", unspool.load(book).start()
    fed = own.feed("the ")
    assert fed is not None
    assert second.post(f"{path}/feed", json={"input": "the "}).json()["output"] == fed.tolist()
    for number in range(6):
        inputs = [number, 3, 1]
        expected = [own.step(x).tolist() for x in inputs]
        assert pair[number % 2].post(f"{path}/step", json={"inputs": inputs}).json()["outputs"] == expected
    text = "".join(own.generate(12, seed=5))
    assert first.post(f"{path}/generate", json={"max_tokens": 12, "seed": 5}).json()["text"] == text
    streamed = second.post(f"{path}/generate", json={"max_tokens": 5, "seed": 6, "stream": True})
    assert streamed.text.rstrip().endswith("[DONE]")
    "".join(own.generate(5, seed=6))
    assert first.get(f"{path}/state").content == own.save()
    fork = "/v1/sessions/" + second.post(f"{path}/fork").json()["id"]
    second.post(f"{fork}/feed", json={"input": "x"})
    assert first.get(f"{path}/state").content == own.save()
    assert first.put(f"{fork}/state", content=own.save(), headers={"content-type": "application/octet-stream"})
    assert second.get(f"{fork}/state").content == own.save()
    assert second.delete(path).status_code == 204
    refused(first.get(path), 404, "session_not_found")


def test_a_socket_and_http_of_another_worker_share_a_session(pair: tuple[TestClient, TestClient], book: Path) -> None:
    first, second = pair
    name, own = opened(first), unspool.load(book).start()
    with talking(first, name) as socket:
        socket.send_json({"do": "feed", "input": "the "})
        own.feed("the ")
        assert socket.receive_json()["position"] == 4
        outputs = second.post(f"/v1/sessions/{name}/step", json={"inputs": [2]}).json()["outputs"]
        assert outputs == [own.step(2).tolist()]
        socket.send_json({"do": "step", "inputs": [3]})
        assert socket.receive_json()["outputs"] == [own.step(3).tolist()]
        socket.send_json({"do": "generate", "max_tokens": 4000})
        socket.receive_json()
        socket.send_json({"do": "stop"})
        while "finish_reason" not in (event := socket.receive_json()):
            pass
        assert event["finish_reason"] == "stopped"
    assert second.get(f"/v1/sessions/{name}").json()["position"] == event["position"]


def test_another_token_finds_nothing(pair: tuple[TestClient, TestClient]) -> None:
    path = f"/v1/sessions/{opened(pair[0])}"
    stranger = {"authorization": f"Bearer {OTHER}"}
    for client in pair:
        refused(client.get(path, headers=stranger), 404, "session_not_found")
        refused(client.post(f"{path}/step", json={"inputs": [1]}, headers=stranger), 404, "session_not_found")
        refused(client.delete(path, headers=stranger), 404, "session_not_found")
    assert pair[1].get(path).status_code == 200


def test_redis_has_neither_ids_nor_tokens(pair: tuple[TestClient, TestClient], store: Store) -> None:
    name = opened(pair[0])
    pair[0].post(f"/v1/sessions/{name}/feed", json={"input": "the "})
    with store.client() as inside:
        held = b""
        for key in inside.keys("*"):
            kind = inside.type(key)
            value: Any = inside.hgetall(key) if kind == b"hash" else inside.dump(key)
            held += key + repr(value).encode()
    assert b"state" in held
    for secret in (name, ONE, OTHER):
        for shape in (secret.encode(), hashlib.sha256(secret.encode()).digest()):
            assert shape not in held
            assert shape.hex().encode() not in held
            assert repr(shape)[2:-1].encode() not in held


def test_there_is_room_for_so_many_on_all_workers_together(pair: tuple[TestClient, TestClient]) -> None:
    names = [opened(pair[number % 2]) for number in range(4)]
    for client in pair:
        refused(client.post("/v1/sessions", json={}), 429, "too_many_sessions")
    pair[0].delete(f"/v1/sessions/{names[0]}")
    opened(pair[1])
    refused(pair[0].post(f"/v1/sessions/{names[1]}/fork"), 429, "too_many_sessions")


def test_sessions_expire_and_the_least_recently_used_makes_room(book: Path, store: Store) -> None:
    with store.client() as inside:
        inside.flushall()
        with client_of(book, redis=store.url, max_sessions=2, idle=0.5) as client:
            first = opened(client)
            time.sleep(0.7)
            refused(client.get(f"/v1/sessions/{first}"), 404)
            assert not [key for key in inside.keys("*") if b"session" in key]
        with client_of(book, redis=store.url, max_sessions=2, timeout=0.3) as client:
            first, second = opened(client), opened(client)
            time.sleep(0.4)
            assert client.get(f"/v1/sessions/{first}").status_code == 200
            third = opened(client)
            found = [client.get(f"/v1/sessions/{name}").status_code for name in (first, second, third)]
            assert found == [200, 404, 200]
            assert 'unspool_sessions_dropped_total{worker="' in client.get("/metrics").text


def hold(client: TestClient) -> threading.Event:
    """Keep the only worker of the model from its work until the event is set."""
    free, began = threading.Event(), threading.Event()
    (model,) = service_of(client).models.values()

    def wait() -> None:
        began.set()
        free.wait(30)

    async def submit() -> None:
        model.batcher.submit(Call(wait))

    client.portal.call(submit)  # type: ignore[union-attr]
    assert began.wait(30)
    return free


def in_background(client: TestClient, path: str, body: dict[str, Any]) -> tuple[threading.Thread, list[Any]]:
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(client.post(path, json=body)))
    thread.start()
    return thread, found


def wait_until_locked(store: Store) -> None:
    with store.client() as inside:
        while not inside.keys("*lock*"):
            time.sleep(0.01)


def test_two_workers_never_step_one_session_at_once(
    pair: tuple[TestClient, TestClient], store: Store, book: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = pair
    path = f"/v1/sessions/{opened(first)}"
    free = hold(first)
    thread, found = in_background(first, f"{path}/step", {"inputs": [1]})
    wait_until_locked(store)
    with monkeypatch.context() as patch:
        patch.setattr(redis_store, "LEASE", 0.1)
        patch.setattr(redis_store, "RENEWAL", 0.1)
        refused(second.post(f"{path}/step", json={"inputs": [2]}), 503, "session_busy")
    waiting, later = in_background(second, f"{path}/step", {"inputs": [2]})  # this one waits until it is free
    free.set()
    thread.join()
    waiting.join()
    own = unspool.load(book).start()
    assert found[0].json()["outputs"] == [own.step(1).tolist()]
    assert later[0].json()["outputs"] == [own.step(2).tolist()]


def test_what_is_written_without_the_lock_is_refused(
    pair: tuple[TestClient, TestClient], store: Store, book: Path
) -> None:
    """As when a worker stands still for longer than its lock lasts, and another takes over."""
    first, second = pair
    path = f"/v1/sessions/{opened(first)}"
    free = hold(first)
    thread, found = in_background(first, f"{path}/step", {"inputs": [1]})
    wait_until_locked(store)
    with store.client() as inside:
        inside.delete(*inside.keys("*lock*"))
    own = unspool.load(book).start()
    assert second.post(f"{path}/step", json={"inputs": [7]}).json()["outputs"] == [own.step(7).tolist()]
    free.set()
    thread.join()
    refused(found[0], 503, "session_lost")
    assert first.get(f"{path}/state").content == own.save()


def test_a_lock_is_renewed_while_a_request_lasts(
    pair: tuple[TestClient, TestClient], store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(redis_store, "RENEWAL", 0.05)
    first, _ = pair
    path = f"/v1/sessions/{opened(first)}"
    free = hold(first)
    thread, found = in_background(first, f"{path}/step", {"inputs": [1]})
    wait_until_locked(store)
    with store.client() as inside:
        (lock,) = inside.keys("*lock*")
        inside.pexpire(lock, 1500)  # it would end before the request does
        time.sleep(2.0)
        assert inside.exists(lock)
    free.set()
    thread.join()
    assert found[0].status_code == 200


def test_a_session_that_is_deleted_while_it_is_used_stays_deleted(
    pair: tuple[TestClient, TestClient], store: Store
) -> None:
    first, second = pair
    path = f"/v1/sessions/{opened(first)}"
    free = hold(first)
    thread, found = in_background(first, f"{path}/step", {"inputs": [1]})
    wait_until_locked(store)
    assert second.delete(path).status_code == 204
    free.set()
    thread.join()
    assert found[0].status_code == 200
    refused(first.get(path), 404)


def test_one_who_leaves_while_it_waits_leaves_no_lock(pair: tuple[TestClient, TestClient], store: Store) -> None:
    first, _ = pair
    name, service = opened(first), service_of(first)
    owner = hashlib.sha256(ONE.encode()).digest()

    async def leave(seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds), service.sessions.using(name, owner):
                await asyncio.sleep(1)
        except TimeoutError:
            return

    for seconds in (0.0, 0.0005, 0.001, 0.002, 0.005):
        first.portal.call(leave, seconds)  # type: ignore[union-attr]
        assert first.get(f"/v1/sessions/{name}/state").status_code == 200
    with store.client() as inside:
        assert not inside.keys("*lock*")


def test_the_end_of_a_lock_is_held_until_it_is_done(pair: tuple[TestClient, TestClient]) -> None:
    first, _ = pair
    sessions: Any = service_of(first).sessions

    async def leave() -> None:
        with pytest.raises(RefusalError, match="no such session"):
            async with sessions.using("none", b""):
                pass
        assert len(sessions._releasing) == 1
        await asyncio.wait(sessions._releasing)
        await asyncio.sleep(0)
        assert not sessions._releasing

    first.portal.call(leave)  # type: ignore[union-attr]


def test_a_state_of_another_model_or_a_damaged_one_is_gone(pair: tuple[TestClient, TestClient], store: Store) -> None:
    first, second = (opened(pair[0]) for _ in range(2))
    with store.client() as inside:
        keys = inside.keys("*session*")
        inside.hset(keys[0], "digest", "00" * 32)
        inside.hset(keys[1], "state", b"damaged")
    for name in (first, second):
        refused(pair[1].post(f"/v1/sessions/{name}/step", json={"inputs": [1]}), 404, "session_not_found")


def test_metrics_are_those_of_all_workers(
    pair: tuple[TestClient, TestClient], store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = pair
    for client in pair:
        service_of(client).metrics._labels = (("worker", str(id(client))),)
        opened(client)
    share: Any = service_of(second).sessions._share  # type: ignore[attr-defined]
    second.portal.call(share)  # type: ignore[union-attr]
    monkeypatch.setattr("redis.asyncio.Redis.scan_iter", None)  # the database may have many other keys
    with store.client() as inside:
        inside.sadd(redis_store.WORKERS, "one-that-has-ended")
    text = first.get("/metrics").text
    for client in pair:
        assert f'worker="{id(client)}",route="/v1/sessions"' in text
    assert "\nunspool_sessions 2\n" in text
    with store.client() as inside:
        assert b"one-that-has-ended" not in inside.smembers(redis_store.WORKERS)
        assert inside.smembers(redis_store.WORKERS)
    names = [line.split()[2] for line in text.splitlines() if line.startswith("# TYPE")]
    assert len(names) == len(set(names))


def test_redis_gone_is_told_and_recovers(book: Path, tmp_path: Path) -> None:
    with redis_server(tmp_path) as store, client_of(book, redis=store.url) as client:
        path, own = f"/v1/sessions/{opened(client)}", unspool.load(book).start()
        assert client.post(f"{path}/step", json={"inputs": [1]}).json()["outputs"] == [own.step(1).tolist()]
        with talking(client, path.rsplit("/", 1)[1]) as socket:
            store.stop(save=True)
            socket.send_json({"do": "step", "inputs": [2]})
            assert socket.receive_json()["error"]["code"] == "store_unavailable"
            for _ in range(3):
                refused(client.post(f"{path}/step", json={"inputs": [2]}), 503, "store_unavailable")
                refused(client.post("/v1/sessions", json={}), 503, "store_unavailable")
                refused(client.get("/ready"), 503, "store_unavailable")
            assert client.get("/health").status_code == 200
            assert client.get("/metrics").status_code == 200
            ask = {"model": "run", "prompt": "the ", "max_tokens": 3}
            assert client.post("/v1/completions", json=ask).status_code == 200  # it needs no session
            store.start()
            assert client.get("/ready").status_code == 200
            assert client.post(f"{path}/step", json={"inputs": [2]}).json()["outputs"] == [own.step(2).tolist()]
            socket.send_json({"do": "step", "inputs": [3]})
            assert socket.receive_json()["outputs"] == [own.step(3).tolist()]


def test_a_redis_that_goes_during_a_call_fails_it_and_keeps_what_was_before(book: Path, tmp_path: Path) -> None:
    with redis_server(tmp_path) as store, client_of(book, redis=store.url) as client:
        path, own = f"/v1/sessions/{opened(client)}", unspool.load(book).start()
        free = hold(client)
        thread, found = in_background(client, f"{path}/step", {"inputs": [1]})
        wait_until_locked(store)
        with store.client() as inside:
            (lock,) = inside.keys("*lock*")
            inside.pexpire(lock, 1)
        store.stop(save=True)
        free.set()
        thread.join()
        refused(found[0], 503, "store_unavailable")
        store.start()
        assert client.post(f"{path}/step", json={"inputs": [5]}).json()["outputs"] == [own.step(5).tolist()]


def test_an_address_that_cannot_be_read_is_refused_without_its_password(book: Path) -> None:
    with pytest.raises(ValueError, match="redis") as caught:
        Service.load([book], ServeSettings(redis="redis://:a-password@127.0.0.1:port/0"))
    assert "a-password" not in str(caught.value)
    assert "a-password" not in repr(ServeSettings(redis="redis://:a-password@127.0.0.1/0"))


def test_a_session_that_diverges_stays_what_it_was(accumulator: Path, store: Store) -> None:
    with client_of(accumulator, redis=store.url) as client:
        path = f"/v1/sessions/{opened(client)}"
        client.post(f"{path}/step", json={"inputs": [[1.0]]})
        before = client.get(f"{path}/state").content
        refused(client.post(f"{path}/step", json={"inputs": [[3e38]] * 5}), 422)
        assert client.get(f"{path}/state").content == before
