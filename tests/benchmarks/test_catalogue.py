"""The comparison of recurrences: equal sizes, one record per question, and names that are checked first."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.variants import PUBLISHED

from unspool.cells import CATALOGUE, find_cell

RESULTS = Path(__file__).parents[2] / "benchmarks" / "results"
#: One layer of an LSTM with 64 inputs and 84 units: 4 H (I + H + 1).
LSTM_84 = 4 * 84 * (64 + 84 + 1)


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(RESULTS))  # the scripts there import each other by name
    from benchmarks.results import catalogue

    return catalogue


@pytest.fixture
def measured(script: Any, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the cells that are trained, by a stand-in that trains nothing."""
    called: list[str] = []

    def train(question: Any) -> dict[str, Any]:
        called.append(question.cell)
        if question.cell == "elman":
            raise FloatingPointError("loss nan after 3 updates")
        return {"accuracy": 0.5}

    monkeypatch.setattr(script, "TASKS", {**script.TASKS, "copying": train})
    return called


def options(script: Any, *more: str) -> Any:
    return script.read_options(["--tasks", "copying", "--seconds", "5", *more])


def test_width_for_a_number_of_parameters(script: Any) -> None:
    assert script.choose_hidden("lstm", LSTM_84) == 84
    assert script.choose_hidden("lstm", LSTM_84 + 100) == 84


@pytest.mark.parametrize(("cell", "layers"), [("elman", 1), ("mingru", 2)])
def test_width_is_the_nearest(script: Any, cell: str, layers: int) -> None:
    found = script.choose_hidden(cell, 50_000)
    sizes = {hidden: (64, hidden)[:layers] for hidden in (found - 1, found, found + 1)}
    away = {
        hidden: abs(sum(find_cell(cell).count_parameters(size, hidden) for size in inputs) - 50_000)
        for hidden, inputs in sizes.items()
    }
    assert min(away, key=away.__getitem__) == found


def test_every_cell_of_the_literature_is_asked(script: Any) -> None:
    assert len(script.CELLS) == len(set(script.CELLS)) == 28
    assert set(script.CELLS) < set(CATALOGUE)
    assert {"elman", "gru", "lstm", *PUBLISHED} == set(script.CELLS)


def test_what_is_kept_is_not_made_again(script: Any, measured: list[str], tmp_path: Path) -> None:
    file = tmp_path / "kept.jsonl"
    asked = options(script, "--cells", "gru", "elman", "--keep", str(file))
    script.make_missing(script.read_kept(file), asked)
    assert measured == ["gru", "elman"]
    file.write_text(file.read_text() + '{"cell": "ls')  # a run that was killed
    asked = options(script, "--cells", "gru", "lstm", "elman", "--keep", str(file))
    script.make_missing(script.read_kept(file), asked)
    assert measured == ["gru", "elman", "lstm"]
    assert [json.loads(line)["cell"] for line in file.read_text().splitlines()] == measured
    script.make_missing(script.read_kept(file), options(script, "--cells", "gru", "--seconds", "6"))
    assert measured == ["gru", "elman", "lstm", "gru"]  # another budget is another question


def test_table_shows_failures_and_gaps(script: Any, measured: list[str], tmp_path: Path) -> None:
    file = tmp_path / "kept.jsonl"
    script.make_missing([], options(script, "--cells", "gru", "elman", "--keep", str(file)))
    asked = options(script, "--cells", "gru", "elman", "lstm", "--parameters", "50000")
    _, _, *rows = script.table(script.read_kept(file), asked)
    assert [row.split(" | ")[-1] for row in rows] == ["50.0% |", "failed: loss nan after 3 updates |", "– |"]
    page = f"before\n{script.BEGIN}\nold\n{script.END}\nafter\n"
    assert script.insert(page, iter(["new"])) == f"before\n{script.BEGIN}\n\nnew\n\n{script.END}\nafter\n"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--cells", "mingr"], "`cell` (='mingr') is not known. Did you mean 'mingru'?"),
        (["--tasks", "party"], "`task` (='party') is not known. Did you mean 'parity'?"),
        (["--seconds", "parity=soon"], "--seconds parity=soon has no positive number"),
        (["--seconds", "1e400"], "--seconds 1e400 has no positive number"),
        (["--tasks", "shakespeare"], "Shakespeare needs a text. Give its file after --text."),
        (["--text", "nowhere.txt"], "--text nowhere.txt is not a file."),
    ],
)
def test_bad_names_end_with_one_line(
    script: Any, arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        script.read_options(arguments)
    assert caught.value.code == 2
    assert said in capsys.readouterr().err.splitlines()[-1]


def test_seconds_of_one_task_and_of_all(script: Any) -> None:
    found = script.read_seconds(["20", "shakespeare=60"])
    assert found["shakespeare"] == 60
    assert found["parity"] == found["S5"] == 20
    assert script.read_seconds(["parity=5"])["copying"] == 300
