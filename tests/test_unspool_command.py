"""Ctrl-C ends the command line with 130 and without a trace, also while it is still being imported."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
#: As `python -m unspool`, and as the script that pip makes of [project.scripts].
WAYS = {
    "module": ["-m", "unspool"],
    "script": ["-c", "import sys; from unspool_command import main; sys.argv[0] = 'unspool'; sys.exit(main())"],
}
each_way = pytest.mark.parametrize("way", WAYS)


def start(way: str, *words: str, ignoring: bool = False) -> subprocess.Popen[str]:
    """A command that tells of every module when it has been imported."""
    command = [sys.executable, "-X", "importtime", *WAYS[way], *words]
    before = signal.signal(signal.SIGINT, signal.SIG_IGN if ignoring else signal.default_int_handler)
    try:
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    finally:
        signal.signal(signal.SIGINT, before)


def wait_for_import(process: subprocess.Popen[str], module: str) -> None:
    assert process.stderr is not None
    for line in process.stderr:
        if line.rpartition("|")[2].strip() == module:
            return
    raise AssertionError(f"{module} was not imported")


def said(text: str) -> list[str]:
    return [line for line in text.splitlines() if not line.startswith("import time:")]


@each_way
@pytest.mark.parametrize(
    ("command", "module"),
    [("check", "typer"), ("check", "numpy"), ("check", "torch._C"), ("check", "torch.nn"), ("train", "pydantic")],
)
def test_while_it_is_imported(way: str, command: str, module: str) -> None:
    with start(way, command) as process:
        wait_for_import(process, module)
        process.send_signal(signal.SIGINT)
        out, error = process.communicate(timeout=100)
    assert process.returncode == 130
    assert (out, said(error)) == ("", ["interrupted"])


@each_way
def test_where_it_is_ignored_it_stays_so(way: str) -> None:
    """A job in the background does not end by the Ctrl-C meant for another."""
    with start(way, "--version", ignoring=True) as process:
        wait_for_import(process, "typer.models")
        process.send_signal(signal.SIGINT)
        out, error = process.communicate(timeout=100)
    assert process.returncode == 0
    assert out.startswith("unspool ")
    assert said(error) == []


RUN = """
import os, signal, sys, types
stub = types.ModuleType("unspool.cli.main")
def main():
    print("at work")
    {body}
stub.main = main
for name in ("unspool", "unspool.cli"):
    sys.modules[name] = types.ModuleType(name)
sys.modules["unspool.cli.main"] = stub
from unspool_command import main
main()
"""


@pytest.mark.parametrize(
    ("body", "code", "expected"),
    [
        ("os.kill(os.getpid(), signal.SIGINT)", 130, ["interrupted"]),
        ("raise KeyboardInterrupt", 130, ["interrupted"]),
        ("assert signal.getsignal(signal.SIGINT) is signal.default_int_handler", 0, []),
        ("sys.exit(2)", 2, []),
    ],
)
def test_in_the_command(body: str, code: int, expected: list[str]) -> None:
    done = subprocess.run([sys.executable, "-c", RUN.format(body=body)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, said(done.stderr)) == (code, "at work\n", expected)


def test_importing_the_package_leaves_signals_alone() -> None:
    code = "import signal, unspool; assert signal.getsignal(signal.SIGINT) is signal.default_int_handler"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_script_enters_here() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert project["project"]["scripts"] == {"unspool": "unspool_command:main"}
    assert project["tool"]["setuptools"]["py-modules"] == ["unspool_command"]
    assert os.access(ROOT / "src" / "unspool_command.py", os.R_OK)
