"""The OpenAPI document: random requests by it are served or refused as it says, never with 500."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import hypothesis
import pytest
import schemathesis
from hypothesis import HealthCheck
from schemathesis import GenerationMode
from starlette.testclient import TestClient
from tests.server.serving import client_of, opened

from unspool.server.routes import make_routes
from unspool.server.schema import BOUNDS, TYPES
from unspool.server.settings import ServeSettings

#: Keywords of JSON Schema that say nothing about values, or that `check` follows.
KNOWN = {"type", "properties", "required", "additionalProperties", "items", "anyOf", "enum", "default", *BOUNDS}

#: Seconds in which each is answered.
HANG = 1.0


def timed(call: Callable[[], Any]) -> tuple[Any, float]:
    """An answer and its seconds; what took long is asked again, as the machine may have been busy with other things."""
    found: list[float] = []
    while not found or (min(found) > HANG and len(found) < 3):
        began = time.perf_counter()
        answer = call()
        found.append(time.perf_counter() - began)
    return answer, min(found)


def send_all(client: TestClient, examples: int, slowest: dict[float, str]) -> int:
    """Random requests for every route; how many there were, and the seconds of the slowest."""
    schema = schemathesis.openapi.from_dict(client.get("/openapi.json").json())
    session, sent = opened(client), 0
    for result in schema.get_all_operations():
        operation: Any = result.ok()  # type: ignore[union-attr]
        sent += send(client, operation, GenerationMode.POSITIVE, session, examples, slowest)
        # bytes of any kind fit the schema of a state
        if any(one.media_type == "application/json" for one in operation.body):
            sent += send(client, operation, GenerationMode.NEGATIVE, session, examples, slowest)
    return sent


def send(
    client: TestClient, operation: Any, mode: GenerationMode, session: str, examples: int, slowest: dict[float, str]
) -> int:
    """Random requests for one route, every other one for a session that there is."""
    allowed, sent = {int(status) for status in operation.definition.raw["responses"]}, 0

    @hypothesis.settings(max_examples=examples, database=None, deadline=None, suppress_health_check=list(HealthCheck))
    @hypothesis.given(case=operation.as_strategy(generation_mode=mode))
    def check(case: Any) -> None:
        nonlocal sent
        sent += 1
        there = sent % 2 and case.method != "DELETE"
        path = case.path.replace("{id}", session) if there and "{id}" in case.path else case.formatted_path
        body = case.body if isinstance(case.body, bytes) else json.dumps(_plain(case.body)).encode()
        headers = {"content-type": case.media_type or "application/json"}
        answer, seconds = timed(lambda: client.request(case.method, path, content=body, headers=headers))
        slowest[seconds] = f"{case.method} {path} {body[:200]!r}"
        assert answer.status_code in allowed, (case.method, path, body[:500], answer.status_code, answer.text)

    check()
    return sent


def _plain(value: object) -> object:
    return value if isinstance(value, dict | list | str | int | float | bool | None) else None


def send_and_tell(book: Path, examples: int, record_property: Any) -> int:
    slowest: dict[float, str] = {}
    with client_of(book, max_tokens=256) as client:  # the work of thousands of tokens is no hang, but takes long
        sent = send_all(client, examples, slowest)
    record_property("requests", f"{sent:,} random ones, the slowest in {1000 * max(slowest):.0f} ms")
    assert max(slowest) < HANG, slowest[max(slowest)]
    return sent


def test_random_requests_are_served_or_refused(book: Path, record_property: Any) -> None:
    assert send_and_tell(book, 16, record_property) > 200


@pytest.mark.long
def test_ten_thousand_random_requests_are_served_or_refused(book: Path, record_property: Any) -> None:
    assert send_and_tell(book, 800, record_property) > 10_000


def test_every_keyword_of_the_schemas_is_checked() -> None:
    def keywords(schema: object) -> set[str]:
        if not isinstance(schema, dict):
            return set()
        inner = [*schema.get("properties", {}).values(), *schema.get("anyOf", ()), schema.get("items")]
        return set(schema).union(*map(keywords, [*inner, schema.get("additionalProperties")]))

    for route in make_routes(ServeSettings()):
        assert keywords(route.body) | keywords(route.answer) <= KNOWN
        assert route.summary
    assert set(TYPES) >= {"object", "array", "string"}
