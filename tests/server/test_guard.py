"""Who may ask and how much: Host, Origin, tokens, bodies, sessions, queues and time."""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient, WebSocketDenialResponse
from tests.server.serving import client_of, opened, refused, talking

from unspool.errors import ArgumentError
from unspool.server.jobs import Call
from unspool.server.memory_store import MemoryStore
from unspool.server.metrics import Metrics
from unspool.server.refusals import RefusalError
from unspool.server.service import Service
from unspool.server.sessions import MOST_WAITING, Entry
from unspool.server.settings import ServeSettings, gather
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


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"host": "0.0.0.0"}, "token"),
        ({"host": "192.168.1.2"}, "token"),
        ({"host": "example.org"}, "token"),
        ({"token": ("short",)}, "8 or more"),
        ({"token": ("with a space in it",)}, "ASCII"),
        ({"port": 65536}, "port"),
        ({"timeout": 0}, "timeout"),
        ({"max_tokens": -1}, "max_tokens"),
        ({"idle": float("nan")}, "idle"),
        ({"workers": 0}, "workers"),
        ({"workers": 2}, "redis"),
        ({"redis": "http://:a-password@127.0.0.1"}, "redis://"),
    ],
    ids=str,
)
def test_settings_that_cannot_be_are_refused(given: dict[str, Any], said: str) -> None:
    with pytest.raises(ArgumentError, match=said) as caught:
        ServeSettings(**given)
    assert not any(one in str(caught.value) for one in (*given.get("token", ()), "a-password"))


def test_arguments_count_more_than_variables_and_these_more_than_the_file(tmp_path: Path) -> None:
    config = tmp_path / "serve.toml"
    config.write_text('runs = ["a", "b"]\nport = 1\nqueue = 2\nidle = 3\ntoken = "from-the-file"\n')
    variables = {
        "UNSPOOL_SERVE_PORT": "4",
        "UNSPOOL_SERVE_INT8": "true",
        "UNSPOOL_SERVE_ALLOW_HOST": "x,y",
        "HOME": "/",
    }
    found = gather({"port": None, "queue": 5}, variables, config)
    assert found == {
        **{"runs": ("a", "b"), "port": 4, "queue": 5, "idle": 3.0, "token": ("from-the-file",)},
        **{"int8": True, "allow_host": ("x", "y")},
    }
    for name, text in (("PORT", "x"), ("INT8", "maybe"), ("PROT", "1")):
        with pytest.raises(ArgumentError, match=f"UNSPOOL_SERVE_{name}"):
            gather({}, {f"UNSPOOL_SERVE_{name}": text})
    for line in ('port = "1"', "prot = 1", "token = 1", "runs = [1]", "port ="):
        config.write_text(line)
        with pytest.raises(ArgumentError):
            gather({}, {}, config)
    with pytest.raises(ArgumentError, match="cannot be read"):
        gather({}, {}, tmp_path / "none.toml")
