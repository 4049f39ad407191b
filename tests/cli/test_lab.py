"""`unspool lab`: lists, runs, keeps and writes; bad input gets one clear line."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest
from tests.cli.calling import call, refused

from unspool.cli.lab_data import find_generators
from unspool.lab import data


@pytest.fixture(autouse=True)
def _english(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("LC_ALL", "C")
    monkeypatch.chdir(tmp_path)


def test_chapters_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert call("lab") == 0
    said = capsys.readouterr().out
    assert "How long can my LSTM or GRU remember?" in said
    assert call("lab", "--lang", "zh") == 0
    assert "我的 LSTM 或 GRU 能记住多久？" in capsys.readouterr().out


def test_the_list_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert call("lab", "--json") == 0
    entries = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert len(entries) == 57
    assert {"id", "name", "claim", "kind", "heading", "question"} <= entries[0].keys()


def test_a_chapter_is_run_and_kept(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert call("lab", "parameters", "--quick", "--out", "kept") == 0
    said = capsys.readouterr().out
    assert "1 holds" in said
    assert (tmp_path / "kept" / "index.html").exists()
    assert call("lab", "S1-8", "--quick", "--out", "kept", "--json") == 0
    entry = json.loads(capsys.readouterr().out)
    assert (entry["id"], entry["verdict"], entry["kind"]) == ("S1-8", "holds", "exact")
    assert {"claim", "margin", "numbers", "seconds"} <= entry.keys()


def test_bad_input_is_one_clear_line(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert "Did you mean 'adding'?" in refused(capsys, "lab", "addin")
    assert "Known: S0, S1, S2, S3, S4" in refused(capsys, "lab", "--document", "S9")
    assert "Known: en, zh" in refused(capsys, "lab", "--lang", "de")
    (tmp_path / "file").write_text("")
    assert "is a file" in refused(capsys, "lab", "parameters", "--out", "file")


@pytest.mark.parametrize("name", find_generators())
def test_every_generator_can_be_written(name: str, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    words = [f"{size}=12" for size in ("count", "T", "steps", "sentences") if size in _sizes(name)]
    assert call("lab", "data", name, *words, "--seed", "3") == 0
    (made,) = tmp_path.iterdir()
    ending = made.suffix
    assert call("lab", "data", name, *words, "--out", f"again{ending}", "--seed", "3") == 0
    assert f"again{ending}: " in capsys.readouterr().out
    again = tmp_path / f"again{ending}"
    if ending == ".tsv":
        assert again.read_bytes() == made.read_bytes()
        assert again.read_text(encoding="utf-8").count("\n") == 12
        return
    with np.load(made) as one, np.load(again) as other:
        assert one.files == other.files
        assert all(np.array_equal(one[array], other[array]) for array in one.files)


def _sizes(name: str) -> tuple[str, ...]:
    code = getattr(data, name).__code__
    return tuple(code.co_varnames[: code.co_argcount])


def test_texts_and_targets_stand_side_by_side(tmp_path: Path) -> None:
    assert call("lab", "data", "formulas", "count=5", "--out", "f.tsv") == 0
    rows = [line.split("\t") for line in (tmp_path / "f.tsv").read_text(encoding="utf-8").splitlines()]
    assert len(rows) == 5
    texts, targets = data.formulas(5)
    assert [row[0] for row in rows] == texts
    assert [float(row[1]) for row in rows] == pytest.approx(targets.tolist())


def test_commas_within_texts_are_quoted_in_csv(tmp_path: Path) -> None:
    assert call("lab", "data", "dates", "count=40", "--out", "dates.csv") == 0
    with open(tmp_path / "dates.csv", encoding="utf-8", newline="") as stream:
        assert [tuple(row) for row in csv.reader(stream)] == [tuple(pair) for pair in data.dates(40)]


def test_the_file_must_fit_the_data(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    assert "is a folder" in refused(capsys, "lab", "data", "adding", "--out", "folder")
    assert "Make the folder first" in refused(capsys, "lab", "data", "adding", "--out", "nowhere/x.npz")
    assert "Give a name in .npz" in refused(capsys, "lab", "data", "adding", "--out", "x.txt")
    assert ".tsv or .csv" in refused(capsys, "lab", "data", "dates", "--out", "x.npz")


def test_options_that_exclude_each_other(capsys: pytest.CaptureFixture[str]) -> None:
    assert "runs every chapter" in refused(capsys, "lab", "adding", "--all")
    assert "has none of kalman" in refused(capsys, "lab", "kalman", "--document", "S0")


def test_numbers_of_another_version_are_left_out(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert call("lab", "parameters", "--quick", "--out", "kept") == 0
    file = tmp_path / "kept" / "chapters" / "parameters.json"
    entries = json.loads(file.read_text(encoding="utf-8"))
    file.write_text(json.dumps(entries | {"found": {}}), encoding="utf-8")
    capsys.readouterr()
    assert call("lab", "indices", "--quick", "--out", "kept") == 0
    said = capsys.readouterr()
    assert "is left out" in said.err
    assert "Traceback" not in said.err


def test_data_that_cannot_be_made(capsys: pytest.CaptureFixture[str]) -> None:
    assert "Did you mean 'adding'?" in refused(capsys, "lab", "data", "addng")
    assert "is not known" in refused(capsys, "lab", "data", "encode")
    assert "is not a number" in refused(capsys, "lab", "data", "adding", "T=x")
    assert "Give name=value of T, count, seed" in refused(capsys, "lab", "data", "adding", "width=3")
    assert "is not a whole number from 1" in refused(capsys, "lab", "data", "adding", "T=-5")
    assert "cannot be used" in refused(capsys, "lab", "data", "adding", "T=1000000000000")
