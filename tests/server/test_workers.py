"""Several workers: one that is killed loses one call at most, all are drained together, none outlives its parent."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest
from tests.server.process import SECONDS, Running, server
from tests.server.redis_process import Store, redis_server
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

import unspool
from unspool.runtime.session import Session

pytestmark = pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="looks at processes in /proc")


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with redis_server(tmp_path_factory.mktemp("redis")) as found:
        yield found


@pytest.fixture(scope="module")
def running(book: Path, store: Store) -> Iterator[Running]:
    with server(book, "--workers", 2, "--redis", store.url, "--threads", 1) as found:
        until(lambda: len(workers(found)) == 2)
        yield found


def until(reached: Callable[[], bool]) -> None:
    end = time.monotonic() + SECONDS
    while not reached():
        assert time.monotonic() < end
        time.sleep(0.05)


def workers(running: Running) -> set[int]:
    """The processes that serve: those below the server that share its address."""
    children = Path(f"/proc/{running.process.pid}/task/{running.process.pid}/children").read_text().split()
    return {int(one) for one in children if b"spawn_main" in Path(f"/proc/{one}/cmdline").read_bytes()}


def worker_of(running: Running, port: int) -> int:
    """The worker that has the connection from this port."""
    lines = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    wanted = [int(running.url.rpartition(":")[2]), port]  # others may have the same port of another address
    (inode,) = (line[9] for line in lines if [int(end.split(":")[1], 16) for end in line[1:3]] == wanted)
    for worker in workers(running):
        for place in Path(f"/proc/{worker}/fd").iterdir():
            if place.is_symlink() and os.readlink(place) == f"socket:[{inode}]":
                return worker
    raise AssertionError("no worker has the connection")


def open_session(running: Running, book: Path) -> tuple[str, Session]:
    """A session of the server, and the same of the player, which have read something."""
    name = httpx.post(f"{running.url}/v1/sessions", json={}, timeout=SECONDS).json()["id"]
    own = unspool.load(book).start()
    own.feed("the ")
    path = f"{running.url}/v1/sessions/{name}"
    assert httpx.post(f"{path}/feed", json={"input": "the "}, timeout=SECONDS).status_code == 200
    return path, own


def resumes(path: str, own: Session) -> None:
    """It goes on from what was kept before the call that was lost, to the same bits."""
    expected = [own.step(x).tolist() for x in (1, 2, 3)]
    answer = httpx.post(f"{path}/step", json={"inputs": [1, 2, 3]}, timeout=SECONDS)
    assert answer.json()["outputs"] == expected
    assert httpx.get(f"{path}/state", timeout=SECONDS).content == own.save()


def test_a_worker_that_is_killed_in_mid_stream_loses_one_call(running: Running, book: Path) -> None:
    path, own = open_session(running, book)
    before = workers(running)
    with httpx.Client(timeout=SECONDS) as client:
        ask = {"max_tokens": 4000, "stream": True}
        with client.stream("POST", f"{path}/generate", json=ask) as answer:
            lines = answer.iter_lines()
            next(lines)
            port = answer.extensions["network_stream"].get_extra_info("client_addr")[1]
            killed = worker_of(running, port)
            os.kill(killed, signal.SIGKILL)
            began, told = time.monotonic(), list[str]()
            with pytest.raises((httpx.RemoteProtocolError, httpx.ReadError)):
                told += lines
            assert time.monotonic() - began < 5
            assert "data: [DONE]" not in told
    resumes(path, own)
    until(lambda: len(workers(running) - {killed}) == 2)
    assert before - workers(running) == {killed}


def test_a_socket_of_a_killed_worker_is_closed(running: Running, book: Path) -> None:
    until(lambda: len(workers(running)) == 2)
    path, own = open_session(running, book)
    with connect(f"{path.replace('http', 'ws')}/ws") as socket:
        socket.send(json.dumps({"do": "step", "inputs": [5]}))
        assert json.loads(socket.recv(SECONDS))["outputs"] == [own.step(5).tolist()]  # this call is kept
        socket.send(json.dumps({"do": "generate", "max_tokens": 4000}))
        socket.recv(SECONDS)
        os.kill(worker_of(running, socket.local_address[1]), signal.SIGKILL)
        with pytest.raises(ConnectionClosed):
            read_all(socket)
    resumes(path, own)


def read_all(socket: ClientConnection) -> None:
    while True:
        socket.recv(SECONDS)


def test_sessions_are_served_by_all_workers(running: Running, book: Path) -> None:
    until(lambda: len(workers(running)) == 2)
    path, own = open_session(running, book)
    served: set[int] = set()
    end = time.monotonic() + SECONDS
    while len(served) < 2:
        assert time.monotonic() < end
        with httpx.Client(timeout=SECONDS) as client:
            with client.stream("POST", f"{path}/step", json={"inputs": [4]}) as answer:
                answer.read()
                port = answer.extensions["network_stream"].get_extra_info("client_addr")[1]
            served.add(worker_of(running, port))
            assert json.loads(answer.content)["outputs"] == [own.step(4).tolist()]


def test_all_workers_are_drained(book: Path, store: Store) -> None:
    with server(book, "--workers", 2, "--redis", store.url, "--threads", 1) as running:
        ask = {"model": "run", "prompt": "the ", "max_tokens": 2000, "stream": True}
        with httpx.Client(timeout=SECONDS) as client:
            streams = [client.build_request("POST", f"{running.url}/v1/completions", json=ask) for _ in range(4)]
            answers = [client.send(one, stream=True) for one in streams]
            lines = [answer.iter_lines() for answer in answers]
            for one in lines:
                next(one)
            children = workers(running)
            running.process.send_signal(signal.SIGTERM)
            assert [[*one][-2] for one in lines] == ["data: [DONE]"] * 4
        assert running.process.wait(SECONDS) == 0
        assert not [one for one in children if Path(f"/proc/{one}").exists()]
        assert running.process.stderr is not None
        log = [json.loads(line) for line in running.process.stderr.read().splitlines()]
        assert [one["route"] for one in log] == ["/v1/completions"] * 4


def test_workers_end_with_their_parent(book: Path, store: Store) -> None:
    with server(book, "--workers", 2, "--redis", store.url, "--threads", 1) as running:
        assert httpx.get(f"{running.url}/ready", timeout=SECONDS).status_code == 200
        children = workers(running)
        running.process.kill()
        running.process.wait(SECONDS)
        until(lambda: not [one for one in children if alive(one)])


def alive(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
