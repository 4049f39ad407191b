"""docs/serve.md: its commands for curl work against a server, and its tables are those of the code."""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import fields
from pathlib import Path

import pytest
from tests.server.process import server

from unspool.server.routes import make_routes
from unspool.server.settings import ServeSettings

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
