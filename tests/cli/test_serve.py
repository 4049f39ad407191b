"""unspool serve: mistakes are one line."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

import pytest
from tests.cli.calling import refused
from tests.runs.tiny_run import TinyRun


def line(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    said = refused(capsys, "serve", *arguments)
    assert said.count("\n") == 1
    assert said.startswith("error: ")
    return said


def test_mistakes_are_one_line(
    capsys: pytest.CaptureFixture[str], tiny_run: TinyRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "no run" in line(capsys)
    assert "there is no run" in line(capsys, tmp_path / "none", "--port", 0)
    said = line(capsys, tiny_run.path, "--host", "0.0.0.0")
    assert "--host (='0.0.0.0')" in said
    assert "--token" in said
    assert "ASCII" in line(capsys, tiny_run.path, "--token", "short")
    assert "another run" in line(capsys, tiny_run.path, tiny_run.path, "--port", 0)
    assert "--max-tokens (=0)" in line(capsys, tiny_run.path, "--max-tokens", 0)
    assert "listened on" in line(capsys, tiny_run.path, "--host", "192.0.2.1", "--token", "long-enough-1")
    said = line(capsys, tiny_run.path, "--workers", 2)
    assert "--workers (=2) needs sessions that all workers can reach" in said
    assert "--redis" in said
    (tmp_path / "serve.toml").write_text("prot = 1\n")
    assert "'port'" in line(capsys, tiny_run.path, "--config", tmp_path / "serve.toml")
    monkeypatch.setenv("UNSPOOL_SERVE_PORT", "many")
    assert "UNSPOOL_SERVE_PORT" in line(capsys, tiny_run.path)


def test_a_port_in_use_is_told(capsys: pytest.CaptureFixture[str], tiny_run: TinyRun) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert f"--port (={port}) is in use" in line(capsys, tiny_run.path, "--port", port)


#: Hides packages as if they were not installed.
HIDDEN = """
import importlib.abc, sys

class Absent(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name.partition(".")[0] in sys.argv[1].split(","):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Absent())
from unspool.cli.main import main
main(sys.argv[2:])
"""


def without(modules: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", HIDDEN, modules, "serve", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_a_missing_extra_is_named_and_torch_is_not_needed(tiny_run: TinyRun) -> None:
    done = without("uvicorn", tiny_run.path)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "error: unspool serve needs uvicorn: pip install 'unspool[serve]'\n"
    done = without(
        "torch,polars,plotly,jinja2,filelock,tomli_w", tiny_run.path, "--host", "192.0.2.1", "--token", "x" * 9
    )
    assert "listened on" in done.stderr
