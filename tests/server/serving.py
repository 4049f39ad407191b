"""Services of small runs for tests: a character model, a classifier of numbers and one of texts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from starlette.testclient import TestClient, WebSocketTestSession

from unspool.server.app import make_app
from unspool.server.service import Service
from unspool.server.settings import ServeSettings

LOCAL = "http://127.0.0.1"


@contextmanager
def client_of(*runs: Path, **settings: Any) -> Iterator[TestClient]:
    """A client of a server in this process, which ends with it."""
    service = Service.load(runs, ServeSettings(**{"access_log": False, **settings}))
    with TestClient(make_app(service, "1"), base_url=LOCAL) as client:
        client.service = service  # type: ignore[attr-defined]
        yield client


def opened(client: TestClient, **body: Any) -> str:
    """The id of a new session."""
    answer = client.post("/v1/sessions", json=body)
    assert answer.status_code == 201, answer.text
    found: str = answer.json()["id"]
    return found


def talking(client: TestClient, session: str, **options: Any) -> WebSocketTestSession:
    """A WebSocket of a session."""
    return client.websocket_connect(f"ws://127.0.0.1/v1/sessions/{session}/ws", **options)


def refused(answer: Any, status: int, code: str | None = None) -> dict[str, Any]:
    """The error of an answer, in its one form."""
    assert answer.status_code == status, answer.text
    (error,) = answer.json().values()
    assert set(error) == {"message", "type", "param", "code"}
    assert code is None or error["code"] == code
    assert ("retry-after" in answer.headers) == (status in (429, 503))
    found: dict[str, Any] = error
    return found
