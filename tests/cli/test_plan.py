"""unspool plan: what people and programs read, and what is said of wrong input."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import numpy as np
import pytest
from rich.cells import cell_len
from rich.console import Console
from tests.cli.calling import call, refused

from unspool.cli.plan import draw
from unspool.insight import probe
from unspool.insight.measures.dependence import Dependence

Output = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def short_probe(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe, "STEPS", 3)


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "abc.txt"
    ids = np.random.default_rng(0).integers(0, 3, 3000)
    ids[4:] = np.where(np.random.default_rng(1).random(2996) < 0.7, ids[:-4], ids[4:])
    path.write_text("".join("abc"[one] for one in ids), encoding="utf-8")
    return path


def test_people_read_memory_reasons_and_a_command(text: Path, capsys: Output) -> None:
    assert call("plan", text) == 0
    out = capsys.readouterr().out
    for part in ("lm, guessed", "2,700 characters in one sequence", "memory", "mutual information", "noise", "●"):
        assert part in out
    assert "cell = gru: " in out
    assert out.rstrip().splitlines()[-1].startswith(f"unspool train {text} --cell gru")


def test_columns_are_the_width_of_a_pipe(text: Path, capsys: Output, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(text.parent)
    for columns in (40, 60):
        monkeypatch.setenv("COLUMNS", str(columns))
        assert call("plan", text.name, "--lags", 50) == 0
        *lines, command = capsys.readouterr().out.rstrip().splitlines()
        widest = max(cell_len(line.rstrip()) for line in lines)
        assert columns - 10 < widest <= columns
        assert command.startswith("unspool train abc.txt --cell gru --layers")  # in one line, to be copied
    monkeypatch.setenv("COLUMNS", "wide")
    assert call("plan", text.name, "--lags", 50) == 0
    assert max(map(len, capsys.readouterr().out.splitlines())) > 100


def test_noise_has_two_digits(capsys: Output) -> None:
    lags, shares = np.arange(1, 9), np.linspace(0.5, 0.0, 8)
    for noise, said in ((0.000213, "noise 0.00021"), (0.006, "noise 0.0060"), (0.25, "noise 0.25"), (12.0, "noise 12")):
        found = Dependence("mutual information", lags, shares, shares, np.full(8, noise), 3, False, False)
        out = Console(width=60, highlight=False, markup=False)
        draw(found, out)
        lines = capsys.readouterr().out.splitlines()
        assert [line.endswith(f" {said}") for line in lines].count(True) == 1
        assert max(map(cell_len, lines)) <= 60


def test_what_never_changes_is_not_drawn(tmp_path: Path, capsys: Output) -> None:
    path = tmp_path / "a.txt"
    path.write_text("a" * 3000, encoding="utf-8")
    assert call("plan", path) == 0
    out = capsys.readouterr().out
    assert "All steps are the same" in out
    assert "┤" not in out
    assert "noise" not in out


def test_the_command_is_accepted(text: Path, capsys: Output) -> None:
    assert call("plan", text, "--lags", 9, "--set", "hidden=8") == 0
    line = capsys.readouterr().out.rstrip().splitlines()[-1]
    assert "--hidden 8" in line
    words = shlex.split(line)
    assert call(*words[1:], "--steps", 1, "--dry-run") == 0
    assert "All settings are valid" in capsys.readouterr().out


def test_json_holds_everything(text: Path, capsys: Output) -> None:
    assert call("plan", text, "--json", "--lags", 9, "--tokenizer", "byte") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["dependence"]["lags"] == list(range(1, 10))
    assert len(found["dependence"]["shares"]) == len(found["dependence"]["noise"]) == 9
    assert found["memory"] == found["dependence"]["memory"] >= 4
    assert {one["setting"] for one in found["proposals"]} >= {"cell", "layers", "bptt"}
    assert found["command"].startswith("unspool train ")
    assert "--tokenizer byte" in found["command"]


def test_help_has_examples(capsys: Output) -> None:
    assert call("plan", "--help") == 0
    assert capsys.readouterr().out.count("unspool plan") >= 3


def test_markup_in_names_is_text(text: Path, capsys: Output) -> None:
    odd = text.rename(text.with_name("[red]a.txt"))
    assert call("plan", odd, "--lags", 5) == 0
    assert "[red]a.txt" in capsys.readouterr().out


def test_wrong_input_is_said_in_a_line(text: Path, tmp_path: Path, capsys: Output) -> None:
    assert "there is no file" in refused(capsys, "plan", tmp_path / "none.txt")
    said = refused(capsys, "plan", text, "--lags", "0")
    assert "--lags" in said
    assert "limit" not in said
    assert "has no =" in refused(capsys, "plan", text, "--set", "cell")
    assert "not known" in refused(capsys, "plan", text, "--task", "guess")
    table = tmp_path / "t.csv"
    table.write_text("a,b,c\n1,2,3\n", encoding="utf-8")
    assert "what is to be learned is not clear" in refused(capsys, "plan", table)
