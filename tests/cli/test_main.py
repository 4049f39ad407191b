"""The command line: help, exit codes, colours, and where the output goes."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.benchmarks.example import report

import unspool
from unspool.cli.main import COMMANDS as LISTED
from unspool.cli.main import main
from unspool.errors import UnspoolError
from unspool.lab.bench import Report, Settings

COMMANDS = ("bench", "check")


def call(*arguments: str) -> int:
    """Run the command line and return its exit code."""
    with pytest.raises(SystemExit) as left:
        main(arguments)
    code = left.value.code
    assert isinstance(code, int)
    return code


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What `bench` asked for; the answer is a report made up before."""
    calls: list[Any] = []

    def run(only: list[str], settings: Settings, say: Any) -> Report:
        calls.append((list(only), settings))
        say("measuring")
        say("! jax takes no part")
        return report()

    monkeypatch.setattr("unspool.cli.bench.run", run)
    return calls


def failing(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    def run(*_: Any) -> Report:
        raise error

    monkeypatch.setattr("unspool.cli.bench.run", run)


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("option", ["--help", "-h"])
def test_help_has_examples(command: str, option: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert call(command, option) == 0
    text = capsys.readouterr().out
    assert len(re.findall(rf"• .*unspool {command}", text)) >= 3
    assert all(line in text for line in ("--json", "--quiet"))


def test_commands_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert call("--help") == 0
    text = capsys.readouterr().out
    assert all(re.search(rf"\b{command}\b", text) for command in COMMANDS)


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert call("--version") == 0
    assert capsys.readouterr().out == f"unspool {unspool.__version__}\n"


def test_every_command_is_the_function_of_its_module(capsys: pytest.CaptureFixture[str]) -> None:
    """The listing imports none of them, so that it could name what is not there."""
    for command in LISTED:
        assert call(command, "--help") == 0
        assert f"Usage: unspool {command} " in capsys.readouterr().out


LIGHT = """
import sys
from unspool.cli.main import main
try:
    main([sys.argv[1]])
finally:
    print(*sorted({"torch", "numpy", "polars", "pydantic", "plotly", "unspool.cli.train"} & set(sys.modules)))
"""


@pytest.mark.parametrize("option", ["--help", "--version"])
def test_help_and_version_import_no_command(option: str) -> None:
    done = subprocess.run([sys.executable, "-c", LIGHT, option], capture_output=True, text=True, check=True)
    assert "unspool" in done.stdout
    assert done.stdout.splitlines()[-1] == ""


@pytest.mark.parametrize(
    ("command", "package", "extra"),
    [("train", "torch", "train"), ("predict", "polars", "train"), ("bench", "jax", "peers"), ("demo", "nobody", None)],
)
def test_a_missing_package_is_named_with_what_brings_it(
    command: str, package: str, extra: str | None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def import_module(_: str) -> None:
        raise ModuleNotFoundError(f"No module named '{package}.part'", name=f"{package}.part")

    monkeypatch.setattr("unspool.cli.main.import_module", import_module)
    if extra is None:  # of a user's own file, perhaps: not ours to explain
        with pytest.raises(ModuleNotFoundError, match=package):
            main([command])
        return
    assert call(command) == 1
    said = capsys.readouterr()
    assert said.err == f"error: unspool {command} needs {package}: pip install 'unspool[{extra}]'\n"


def test_a_package_that_is_missed_later_is_named_too(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    failing(monkeypatch, ModuleNotFoundError(name="plotly.graph_objects"))
    assert call("bench") == 1
    assert capsys.readouterr().err == "error: unspool bench needs plotly: pip install 'unspool[train]'\n"


def test_as_a_module() -> None:
    done = subprocess.run([sys.executable, "-m", "unspool", "bnch"], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "Did you mean 'bench'" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["bench", "--rounds", "0"], "--rounds"),
        (["bench", "--nonsense"], "--nonsense"),
        (["bench", "--only", "gird"], "Did you mean 'grid'"),
        (["bench", "--only", "stream, exprot"], "Did you mean 'export'"),
        (["bench", "--sizes", "1,2,3"], "four sizes"),
        (["bench", "--cell", "lstn"], "Did you mean 'lstm'"),
        (["bench", "--against", "torhc"], "Did you mean 'torch'"),
        (["bench", "--json", "/nonexistent/folder/x.json"], "folder that does not exist"),
        (["bench", "--html", "/nonexistent/folder/x.html"], "folder that does not exist"),
        (["check", "surplus"], "surplus"),
    ],
)
def test_wrong_usage_is_2(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert call(*arguments) == 2
    said = capsys.readouterr()
    assert message in said.err
    assert said.out == ""


def test_failure_is_1_and_says_why(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    failing(monkeypatch, UnspoolError("the gradient differs [by 1]"))
    assert call("bench") == 1
    assert "error: the gradient differs [by 1]" in capsys.readouterr().err


def test_interruption_is_130_and_one_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    failing(monkeypatch, KeyboardInterrupt())
    assert call("bench") == 130
    assert capsys.readouterr() == ("", "interrupted\n")


def test_options_reach_the_benchmark(asked: list[Any]) -> None:
    options = "--only grid --only user --rounds 4 --threads 1 --sizes 1,2,3,4 --cell gru --against torch --compile"
    assert call("bench", *options.split()) == 0
    ((only, settings),) = asked
    assert only == ["grid", "user"]
    assert settings == Settings(1, 4, ("torch",), ((1, 2, 3, 4),), ("gru",), True)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("options", "rounds"), [([], 15), (["--quick"], 3), (["--rounds", "7"], 7), (["--quick", "--rounds", "7"], 7)]
)
def test_rounds(options: list[str], rounds: int, asked: list[Any]) -> None:
    call("bench", *options)
    assert asked == [([], Settings(rounds=rounds))]


def test_the_table_shows_ratios(asked: list[Any], capsys: pytest.CaptureFixture[str]) -> None:
    assert call("bench") == 0
    said = capsys.readouterr()
    assert re.search(r"A\s+│\s+1 s ±15%\s+│\s+4 s ±15%\s+4\.00×\s+│\s+2 s ±15%\s+2\.00×", said.out)
    assert re.search(r"✗ │ grid: text: geometric mean\s+│\s+1\.00× │ ≥ 2\.00×", said.out)
    assert "jax takes no part" in said.out
    assert "measuring" in said.err


def test_quiet_says_nothing_but_remarks(asked: list[Any], capsys: pytest.CaptureFixture[str]) -> None:
    assert call("bench", "--quiet") == 0
    assert capsys.readouterr().err.split() == ["!", "jax", "takes", "no", "part"]


def test_json_alone_goes_to_standard_output(asked: list[Any], capsys: pytest.CaptureFixture[str]) -> None:
    assert call("bench", "--json", "-") == 0
    assert json.loads(capsys.readouterr().out) == json.loads(report().to_json())


def test_files_are_written(asked: list[Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    numbers, pictures = tmp_path / "results.json", tmp_path / "results.html"
    assert call("bench", "--json", str(numbers), "--html", str(pictures)) == 0
    assert Report.from_json(numbers.read_text(encoding="utf-8")) == report()
    text = pictures.read_text(encoding="utf-8")
    assert text.count('class="plotly-graph-div"') == 2
    assert not re.search(r"<(script|link)[^>]+(src|href)=", text)  # nothing comes from elsewhere
    assert "grid: text: geometric mean" in text
    assert "findings" in capsys.readouterr().out


@pytest.mark.parametrize("variables", [{"NO_COLOR": "1", "FORCE_COLOR": "1"}, {}])
def test_no_colours_where_they_are_not_wanted(
    variables: dict[str, str], asked: list[Any], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    call("bench")
    said = capsys.readouterr()
    assert not re.search(r"\x1b\[[\d;]*3[1-7]m", said.out + said.err)


def test_colours_where_they_are(
    asked: list[Any], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    call("bench")
    assert re.search(r"\x1b\[32m +\d\.\d\d×", capsys.readouterr().out)
