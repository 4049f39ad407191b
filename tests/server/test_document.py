"""docs/serve.md: its commands for curl work against a server, and its tables are those of the code."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import tempfile
from dataclasses import fields
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.server.process import server

from unspool.cli.main import main
from unspool.server import explain_calls, guard, run_calls, schemas, settings, sockets, strict_json, traces
from unspool.server.redis_store import LEASE, RENEWAL, SHARED, SHARING
from unspool.server.routes import make_routes
from unspool.server.session_calls import MOST_NUMBERS
from unspool.server.sessions import MOST_WAITING
from unspool.server.settings import ServeSettings, gather

TEXT = (Path(__file__).parent.parent.parent / "docs" / "serve.md").read_text(encoding="utf-8")


def test_the_commands_for_curl_work(book: Path, tmp_path: Path) -> None:
    if shutil.which("curl") is None:
        pytest.skip("curl is not installed: apt-get install curl")
    served = shutil.copytree(book, tmp_path / "book")
    (block,) = re.findall(r"^```sh\n(.*?)^```$", TEXT, re.DOTALL | re.MULTILINE)
    with server(served) as running:
        for line in block.replace("http://127.0.0.1:8000", running.url).splitlines():
            done = subprocess.run(f"{line} --fail-with-body", shell=True, capture_output=True, text=True, check=False)
            assert done.returncode == 0, (line, done.stdout)
            assert "book" in done.stdout
    assert block.count("curl") == 4


def test_the_tables_are_those_of_the_code() -> None:
    for route in make_routes(ServeSettings()):
        *_, last = route.path.split("/")
        assert route.path in TEXT or f"`/{last}`" in TEXT
    for setting in fields(ServeSettings):
        if setting.name not in ("port", "access_log"):
            assert f"--{setting.name.replace('_', '-')}" in TEXT
    limits = ServeSettings()
    for name in ("max_body", "max_tokens", "max_sessions", "idle", "queue", "timeout", "batch_size"):
        assert re.search(rf"\| {getattr(limits, name):,.0f} \| `--{name.replace('_', '-')}`", TEXT)
    assert f"| {MOST_NUMBERS:,}: {MOST_NUMBERS // 30_000} steps with 30,000 tokens |" in TEXT


@pytest.mark.parametrize(
    ("limit", "shown"),
    [
        ("requests that wait for one session, in a worker", MOST_WAITING),
        ("headers of a request", f"{guard.MOST_HEADERS}, or {guard.HEADER_BYTES:,} bytes"),
        ("prompts of a completion", schemas.MOST_PROMPTS),
        ("`n`", schemas.MOST_CHOICES),
        ("`stop`", f"{schemas.MOST_STOPS} texts of {schemas.LONGEST_STOP} characters"),
        ("`logprobs`, `top`", schemas.MOST_RANKED),
        ("`temperature`", schemas.HOTTEST),
        ("`seed`, `top_k`", f"{schemas.LARGEST:,}"),
        ("digits of a whole number", strict_json.DIGITS),
        ("steps that are traced by `feed` and `generate`", traces.MOST_STEPS),
        ("steps that `/v1/trace` traces", explain_calls.MOST_STEPS),
        ("steps that `/v1/importance` leaves out", f"the last {explain_calls.MOST_LEFT_OUT}"),
        ("messages of a WebSocket that wait", sockets.WAITING),
        ("characters of the `id` of a message", sockets.LONGEST_NAME),
        ("characters of a token", f"{settings.SHORTEST_TOKEN} at least, visible ASCII"),
        ("processes", settings.MOST_WORKERS),
        ("seconds for which a link to a report works", run_calls.LINK_SECONDS),
    ],
)
def test_the_limits_are_those_of_the_code(limit: str, shown: object) -> None:
    assert f"\n| {limit} | {shown} |" in TEXT


def test_the_bounds_of_the_bodies_are_in_the_table() -> None:
    """No schema of a request has a bound that the table does not."""
    (table,) = re.findall(r"^\| limit \|.*?^$", TEXT, re.DOTALL | re.MULTILINE)
    shown = set(re.findall(r"[\d,]*\d", table))
    bodies = [route.body for route in make_routes(ServeSettings())] + list(
        sockets.make_messages(ServeSettings()).values()
    )
    found = {bound for body in bodies for bound in bounds(body)}
    assert len(found) > 6
    assert {f"{bound:,}" for bound in found} <= shown


def bounds(schema: object) -> set[int]:
    """The upper bounds in a schema, without those that say what has no effect."""
    if isinstance(schema, list):
        return set[int]().union(*map(bounds, schema))
    if not isinstance(schema, dict):
        return set()
    own = {value for name, value in schema.items() if name.startswith("max") and isinstance(value, int) and value > 1}
    return own.union(*map(bounds, schema.values()))


def test_the_file_that_is_shown_is_one() -> None:
    """The TOML, with the variable of the token that an address of other machines demands."""
    (block,) = re.findall(r"^```toml\n(.*?)^```$", TEXT, re.DOTALL | re.MULTILINE)
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "serve.toml"
        config.write_text(block)
        chosen = gather({}, {"UNSPOOL_SERVE_TOKEN": "long-enough-1"}, config)
    assert chosen.pop("runs") == ("/srv/models/book", "/srv/models/intents")
    assert ServeSettings(**chosen).max_sessions == 4096


def test_the_commands_of_the_unit_and_of_the_container_are_those_of_the_command_line(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (unit,) = re.findall(r"^ExecStart=\S*/unspool (.*)$", TEXT, re.MULTILINE)
    (container,) = re.findall(r"^ENTRYPOINT (\[.*\])$", TEXT, re.MULTILINE)
    monkeypatch.setenv("UNSPOOL_SERVE_TOKEN", "long-enough-1")
    asked: list[tuple[Any, ServeSettings]] = []
    monkeypatch.setattr("unspool.cli.serve.run_server", lambda runs, settings, *_: asked.append((runs, settings)))
    (tmp_path / "serve.toml").write_text('runs = ["/srv/models/book"]\nport = 9000\n')
    words = unit.replace("/etc/unspool/serve.toml", str(tmp_path / "serve.toml")).split()
    for command in (words, json.loads(container)[1:]):
        with pytest.raises(SystemExit, match="0"):
            main(command)
    assert [runs for runs, _ in asked] == [("/srv/models/book",), ("/models/book",)]
    assert [(settings.host, settings.port) for _, settings in asked] == [("127.0.0.1", 9000), ("0.0.0.0", 8000)]
    assert all(settings.token == ("long-enough-1",) for _, settings in asked)


def test_the_lines_of_the_access_log_are_those_that_are_listed(book: Path) -> None:
    with server(book) as running:
        httpx.get(f"{running.url}/health")
        assert running.process.stderr is not None
        line = json.loads(running.process.stderr.readline())
    (listed,) = re.findall(r"per line on standard error: (.*?)\. It has", TEXT, re.DOTALL)
    assert re.findall(r"`(\w+)`", listed) == list(line)


def test_the_seconds_of_the_store_are_those_of_the_code() -> None:
    assert (LEASE, LEASE + RENEWAL, SHARING * RENEWAL, SHARED) == (5, 6, 3, 10)
    for said in ("up to six seconds", "after five seconds", "up to three seconds old", "disappears after ten"):
        assert said in re.sub(r"\s+", " ", TEXT)
