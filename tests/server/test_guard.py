"""Who may ask and how: Host, Origin, tokens, bodies, paths; and the metrics of it."""

from __future__ import annotations

import base64
import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient, WebSocketDenialResponse
from tests.server.serving import client_of, opened, refused, talking

from unspool.server.refusals import RefusalError
from unspool.server.settings import ServeSettings
from unspool.server.strict_json import parse

ONE, OTHER = "first-token-1", "other-token-2"


def bearer(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"}


@pytest.fixture(scope="module")
def client(book: Path) -> Iterator[TestClient]:
    with client_of(book) as found:
        yield found


@pytest.fixture(scope="module")
def guarded(book: Path) -> Iterator[TestClient]:
    with client_of(book, token=(ONE, OTHER), host="0.0.0.0", allow_host=("models.example",)) as found:
        yield found


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "10.0.0.1:8000", ""])
def test_a_local_server_is_called_by_local_names(client: TestClient, host: str) -> None:
    refused(client.get("/v1/models", headers={"host": host}), 403, "host_not_allowed")
    for local in ("127.0.0.1:8000", "localhost:1", "[::1]:8000", "LOCALHOST"):
        assert client.get("/v1/models", headers={"host": local}).status_code == 200


@pytest.mark.parametrize(
    ("host", "status"),
    [("10.0.0.1:8000", 200), ("models.example", 200), ("evil.example", 403), ("localhost", 200)],
)
def test_another_server_is_called_by_address_or_by_names_it_was_given(
    guarded: TestClient, host: str, status: int
) -> None:
    assert guarded.get("/v1/models", headers={"host": host, **bearer(ONE)}).status_code == status


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://127.0.0.1:9999", "https://localhost"])
def test_pages_of_other_origins_are_refused(client: TestClient, origin: str) -> None:
    refused(client.get("/v1/models", headers={"origin": origin}), 403, "origin_not_allowed")
    with pytest.raises(WebSocketDenialResponse) as denied, talking(client, opened(client), headers={"origin": origin}):
        pass
    assert denied.value.status_code == 403
    assert client.get("/v1/models", headers={"origin": "http://127.0.0.1"}).status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {},
        bearer("wrong-token-3"),
        bearer(""),
        bearer(ONE[:-1]),
        {"authorization": ONE},
        {"authorization": f"Basic {ONE}"},
    ],
    ids=str,
)
def test_without_the_token_nothing_is_told(guarded: TestClient, headers: dict[str, str]) -> None:
    for path in ("/v1/models", "/metrics", "/openapi.json", "/nowhere"):
        answer = guarded.get(path, headers=headers)
        refused(answer, 401, "invalid_token")
        assert answer.headers["www-authenticate"] == "Bearer"
    assert guarded.get("/health").status_code == guarded.get("/ready").status_code == 200


def test_a_session_is_bound_to_the_token_of_who_opened_it(guarded: TestClient) -> None:
    session = guarded.post("/v1/sessions", json={}, headers=bearer(ONE)).json()["id"]
    for method, what in (("GET", ""), ("DELETE", ""), ("GET", "/state"), ("POST", "/fork")):
        stolen = guarded.request(method, f"/v1/sessions/{session}{what}", headers=bearer(OTHER))
        refused(stolen, 404, "session_not_found")
    with pytest.raises(WebSocketDenialResponse), talking(guarded, session, headers=bearer(OTHER)):
        pass
    assert guarded.get(f"/v1/sessions/{session}", headers=bearer(ONE)).status_code == 200


def protocol(token: str) -> str:
    """A token as browsers send it, which can give a WebSocket no header."""
    return "unspool.token." + base64.urlsafe_b64encode(token.encode()).decode().rstrip("=")


def test_a_browser_sends_its_token_as_a_protocol(guarded: TestClient) -> None:
    session = guarded.post("/v1/sessions", json={}, headers=bearer(ONE)).json()["id"]
    own = {"headers": {"origin": "http://127.0.0.1"}}
    with talking(guarded, session, subprotocols=["unspool", protocol(ONE)], **own) as socket:
        agreed: str | None = socket.accepted_subprotocol
        assert agreed == "unspool"  # the secret is not repeated
        socket.send_json({"do": "step", "inputs": [1]})
        assert socket.receive_json()["position"] == 1
    with talking(guarded, session, subprotocols=[protocol(ONE)]) as other:
        assert other.accepted_subprotocol is None


@pytest.mark.parametrize(
    ("offered", "headers", "status"),
    [
        ([protocol("wrong-token-3")], {}, 401),
        ([f"unspool.token.{ONE}"], {}, 401),  # not in base64
        (["unspool.token."], {}, 401),
        (["unspool.token.%%%"], {}, 401),
        (["unspool"], {}, 401),
        ([protocol(OTHER)], {}, 404),  # the session of another
        ([protocol(ONE)], bearer("wrong-token-3"), 401),
        ([protocol(ONE)], {"origin": "http://elsewhere.example"}, 403),
    ],
)
def test_a_wrong_token_of_a_browser_is_refused(
    guarded: TestClient, offered: list[str], headers: dict[str, str], status: int
) -> None:
    session = guarded.post("/v1/sessions", json={}, headers=bearer(ONE)).json()["id"]
    with (
        pytest.raises(WebSocketDenialResponse) as denied,
        talking(guarded, session, subprotocols=["unspool", *offered], headers=headers),
    ):
        pass
    assert denied.value.status_code == status


def test_a_protocol_is_no_token_of_http(guarded: TestClient) -> None:
    refused(guarded.get("/v1/models", headers={"sec-websocket-protocol": protocol(ONE)}), 401, "invalid_token")


def test_secrets_are_not_logged(book: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO), client_of(book, token=(ONE,), access_log=True) as client:
        session = client.post("/v1/sessions", json={}, headers=bearer(ONE)).json()["id"]
        client.get(f"/v1/sessions/{session}?token={ONE}", headers=bearer(ONE))
        client.get("/v1/models", headers=bearer("wrong-token-3"))
    lines = [record.getMessage() for record in caplog.records if record.name == "unspool.access"]
    told = [json.loads(line) for line in lines]
    assert [(one["route"], one["status"]) for one in told] == [
        *(("/v1/sessions", 201), ("/v1/sessions/{id}", 200), ("other", 401)),
    ]
    ours = " ".join(record.getMessage() for record in caplog.records if record.name.startswith("unspool"))
    assert not any(secret in ours for secret in (ONE, session, "wrong-token"))
    assert ONE not in repr(ServeSettings(token=(ONE,)))


def logged(caplog: pytest.LogCaptureFixture) -> list[dict[str, Any]]:
    return [json.loads(record.getMessage()) for record in caplog.records if record.name == "unspool.access"]


def test_a_stream_that_fails_is_logged_with_its_error(book: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Its status has been sent before."""
    with caplog.at_level(logging.INFO), client_of(book, access_log=True, timeout=0.3) as client:
        body = {"model": "run", "prompt": "a", "max_tokens": 4000, "stream": True}
        assert "timeout" in client.post("/v1/completions", json=body).text
    assert [(one["status"], one["error"]) for one in logged(caplog)] == [(200, "timeout")]


def test_one_who_leaves_before_the_answer_is_logged_as_such(book: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO), client_of(book, access_log=True) as client:

        async def leave() -> None:
            async def receive() -> Any:
                return {"type": "http.disconnect"}

            async def send(message: Any) -> None:
                raise AssertionError(message)

            headers = [(b"host", b"127.0.0.1"), (b"content-type", b"application/json")]
            scope = {"type": "http", "method": "POST", "path": "/v1/predict", "headers": headers, "query_string": b""}
            await client.app(scope, receive, send)

        client.portal.call(leave)  # type: ignore[union-attr]
        assert 'method="POST",status="499"' in client.get("/metrics").text
    assert logged(caplog)[0]["status"] == 499


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        (b"{", 400, "invalid_json"),
        (b"", 400, "invalid_json"),
        (b'{"model": "\xff"}', 400, "invalid_json"),
        (b"[" * 100_000, 400, "invalid_json"),
        (b'{"model": "run", "model": "run"}', 422, "duplicate_name"),
        (b'{"model": "run", "temperature": NaN}', 422, "not_finite"),
        (b'{"model": "run", "temperature": 1e999}', 422, "not_finite"),
        (b'{"model": "run", "temperature": -Infinity}', 422, "not_finite"),
        (b'{"model": "run", "seed": ' + b"9" * 5000 + b"}", 422, "not_finite"),
        (b"[]", 422, "invalid_value"),
        (b'"text"', 422, "invalid_value"),
        (b'{"model": "run", "prompt": "' + b"x" * 1_000_001 + b'"}', 413, "body_too_large"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_json_is_strict(client: TestClient, body: bytes, status: int, code: str) -> None:
    answer = client.post("/v1/completions", content=body, headers={"content-type": "application/json"})
    refused(answer, status, code)


def test_a_minus_sign_is_no_digit() -> None:
    assert parse(b"[-1234567890123456789, 1e100]") == [-1234567890123456789, 1e100]
    with pytest.raises(RefusalError, match="more than 19 digits"):
        parse(b"-12345678901234567890")


def test_bodies_of_another_kind_or_without_end_are_refused(client: TestClient) -> None:
    refused(client.post("/v1/completions", content=b"{}", headers={"content-type": "text/plain"}), 415)

    def endless() -> Iterator[bytes]:
        for _ in range(1000):
            yield b"x" * 10_000

    answer = client.post("/v1/completions", content=endless(), headers={"content-type": "application/json"})
    refused(answer, 413, "body_too_large")
    assert answer.headers["connection"] == "close"
    huge = {"content-type": "application/json", "content-length": str(10**9)}
    refused(client.post("/v1/completions", content=b"{}", headers=huge), 413)


@pytest.mark.parametrize(
    "path",
    [
        "/page",
        "/page/../app.py",
        "/../etc/passwd",
        "/v1/models/../../etc/passwd",
        "/v1/models/%2e%2e%2fconfig.toml",
        "/v1//models",
    ],
)
def test_no_file_is_served(client: TestClient, path: str) -> None:
    refused(client.get(path), 404)


def test_another_method_is_refused_with_those_that_there_are(client: TestClient) -> None:
    answer = client.put("/v1/sessions/x")
    refused(answer, 405)
    assert set(answer.headers["allow"].split(", ")) == {"GET", "HEAD", "DELETE"}


def test_metrics_are_those_of_prometheus(client: TestClient) -> None:
    client.post("/v1/completions", json={"model": "run", "prompt": "the ", "max_tokens": 3})
    answer = client.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    lines = answer.text.splitlines()
    types = {line.split()[2]: line.split()[3] for line in lines if line.startswith("# TYPE")}
    values = dict(line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
    assert types["unspool_request_seconds"] == "histogram"
    assert float(values['unspool_tokens_total{model="run",kind="written"}']) >= 3
    assert float(values["unspool_sessions"]) >= 0
    route = 'route="/v1/completions"'
    assert (
        values[f'unspool_request_seconds_bucket{{{route},le="+Inf"}}']
        == values[f"unspool_request_seconds_count{{{route}}}"]
    )
