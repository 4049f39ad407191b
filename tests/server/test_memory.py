"""What requests leave behind: no cycles, which would stay until the collector comes by."""

from __future__ import annotations

import asyncio
import gc
import json
import subprocess
import sys
import weakref
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from unspool.server import serving
from unspool.server.app import make_app
from unspool.server.process import LOOKS
from unspool.server.service import Service
from unspool.server.settings import ServeSettings
from unspool.server.sockets import make_messages

Ask = Callable[..., Awaitable[tuple[int, Any]]]


def make_ask(app: Any) -> Ask:
    """Asks the app itself: clients have cycles of their own."""

    async def ask(method: str, path: str, body: Any = None) -> tuple[int, Any]:
        data = b"" if body is None else json.dumps(body).encode()
        headers = {"host": "127.0.0.1", "content-type": "application/json", "content-length": str(len(data))}
        scope = {
            **{"type": "http", "method": method, "path": path, "raw_path": path.encode(), "query_string": b""},
            **{"headers": [(name.encode(), value.encode()) for name, value in headers.items()], "root_path": ""},
        }
        sent: list[Any] = []
        waiting = [{"type": "http.request", "body": data, "more_body": False}]

        async def receive() -> Any:
            return waiting.pop() if waiting else await asyncio.Event().wait()

        async def send(message: Any) -> None:
            sent.append(message)

        await app(scope, receive, send)
        return sent[0]["status"], json.loads(sent[1]["body"] or b"{}")

    return ask


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("GET", "/health", None, 200),
        ("POST", "/v1/sessions/{id}/step", {"inputs": [[1.0], [2.0]]}, 200),
        ("POST", "/v1/sessions/{id}/step", {"inputs": [["x"]]}, 422),
        ("POST", "/v1/sessions/{id}/feed", {"input": [[1.0]] * 3}, 200),
        ("POST", "/v1/sessions/{id}/generate", {}, 422),
        ("GET", "/v1/sessions/none", None, 404),
        ("POST", "/v1/sessions", {}, 429),
        ("POST", "/v1/sessions", {"wrong": 1}, 422),
        ("POST", "/v1/predict", {"examples": [[[1.0]]]}, 200),
        ("POST", "/v1/predict", {"examples": {"a": ["x"]}}, 422),
        ("GET", "/nowhere", None, 404),
    ],
)
def test_requests_leave_no_cycles(exact_sum: Path, method: str, path: str, body: Any, status: int) -> None:
    service = Service.load([exact_sum], ServeSettings(max_sessions=1, access_log=False))
    ask = make_ask(make_app(service, "1"))

    async def talk() -> Counter[str]:
        _, opened = await ask("POST", "/v1/sessions", {})
        whole = path.replace("{id}", opened["id"])
        assert (await ask(method, whole, body))[0] == status
        rounds = [await collect(whole) for _ in range(3)]
        return min(rounds, key=Counter.total)  # what other tests have left may come to its end in one of them

    async def collect(whole: str) -> Counter[str]:
        gc.collect()
        gc.set_debug(gc.DEBUG_SAVEALL)
        try:
            for _ in range(5):
                await ask(method, whole, body)
            gc.collect()
            return Counter(type(one).__name__ for one in gc.garbage)
        finally:
            gc.set_debug(0)
            gc.garbage.clear()

    try:
        left = asyncio.run(talk())
    finally:
        service.close()
    assert left.total() < 5, left  # that many requests


def test_the_parent_of_workers_keeps_no_model(exact_sum: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    load, loaded, alive = Service.load, list[Any](), list[bool]()

    def remember(*given: Any) -> Service:
        service = load(*given)
        loaded.extend(weakref.ref(model.player) for model in service.models.values())
        return service

    def run_workers(worker: Any, listening: Any, configuration: Any) -> None:
        listening.close()
        alive.extend(one() is not None for one in loaded)

    monkeypatch.setattr(Service, "load", remember)
    monkeypatch.setattr(serving, "run_workers", run_workers)
    monkeypatch.setattr(serving, "log_to_stderr", lambda: None)
    settings = ServeSettings(port=0, workers=2, redis="redis://127.0.0.1:1/0")
    gc.disable()
    try:
        serving.serve([exact_sum], settings, "1", lambda _: None)
    finally:
        gc.enable()
    assert alive == [False]


def test_a_server_looks_for_garbage_seldom_and_its_threads_sleep_soon() -> None:
    program = (
        "import gc, os\n"
        "os.environ.pop('OMP_WAIT_POLICY', None); os.environ.pop('GOMP_SPINCOUNT', None)\n"
        "from unspool.server import process\n"
        "process.short_waits(); process.quiet_garbage_collection()\n"
        "print(gc.get_threshold()[0] >= 10_000, gc.get_freeze_count() > 1000, os.environ['GOMP_SPINCOUNT'])\n"
        "os.environ['GOMP_SPINCOUNT'] = '7'; process.short_waits(); print(os.environ['GOMP_SPINCOUNT'])\n"
    )
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert said.split() == ["True", "True", str(LOOKS), "7"]


def test_connections_share_the_descriptions_of_messages() -> None:
    assert make_messages(ServeSettings()) is make_messages(ServeSettings())
