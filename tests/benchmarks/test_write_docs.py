"""The page of documentation is what the script writes, and it hides nothing."""

from __future__ import annotations

import re
import runpy
import sys
from pathlib import Path

import pytest
from benchmarks import write_docs
from tests.benchmarks.example import report

from unspool.lab.bench import QUESTIONS, Report

SCRIPTS = Path(write_docs.__file__).parent


def test_every_ratio_is_shown_and_the_bad_ones_stand_out() -> None:
    text = write_docs.document(report())
    assert text.startswith(write_docs.METHOD)
    assert "| A | 1 s ±15% | 4 s ±15%, 4.00× | 2 s ±15%, 2.00× | 8 | 80% |" in text
    assert "| B | 2 s ±15% | 1 s ±15%, **0.50×** | – | 4 | 40% |" in text
    assert "| ✗ | grid: text: geometric mean | 1.00× | ≥ 2.00× |  |" in text
    assert "| ✓ | grid: text: worst point | 0.50× | ≥ 0.50× | B |" in text
    assert "> jax takes no part" in text
    assert "P (avx2), 2 cores" in text


def test_tables_are_tables() -> None:
    text = write_docs.document(report())
    tables = re.findall(r"(?:^\|.*\|$\n)+", text, re.MULTILINE)
    assert len(tables) == 3
    for table in tables:
        assert len({line.count("|") for line in table.splitlines()}) == 1


def test_the_script_writes_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(write_docs, "TARGET", tmp_path / "benchmarks.md")
    (tmp_path / "results.json").write_text(report().to_json(), encoding="utf-8")
    write_docs.main([str(tmp_path / "results.json")])
    assert (tmp_path / "benchmarks.md").read_text(encoding="utf-8") == write_docs.document(report())
    assert "wrote" in capsys.readouterr().out


def test_the_page_in_the_docs_is_the_scripts() -> None:
    assert write_docs.TARGET.read_text(encoding="utf-8").startswith(write_docs.METHOD)


@pytest.mark.parametrize("question", QUESTIONS)
def test_every_question_has_its_script(
    question: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[list[str]] = []

    def run(only: list[str], *_: object) -> Report:
        asked.append(only)
        return report()

    monkeypatch.setattr("unspool.cli.bench.run", run)
    monkeypatch.setattr(sys, "argv", [f"{question}.py", "--quick"])
    with pytest.raises(SystemExit) as left:
        runpy.run_path(str(SCRIPTS / f"{question}.py"), run_name="__main__")
    assert left.value.code == 0
    assert asked == [[question]]
    assert "findings" in capsys.readouterr().out
