"""unspool predict: the columns of the input that are kept beside the predictions."""

from __future__ import annotations

import json
import math
from datetime import date
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from tests.cli.calling import call
from tests.cli.test_predict import DATA, TINY, rows_of

from unspool.partitions.tables import make_table
from unspool.runs.train import train
from unspool.tasks.contract import PredictedRow

Output = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def intents(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("intents")
    (folder / "training.csv").write_text(DATA["classify"][1], encoding="utf-8")
    train(folder / "training.csv", out=folder / "run", task="classify", **TINY)
    return folder / "run"


def test_the_columns_of_the_input_come_first(intents: Path, tmp_path: Path, capsys: Output) -> None:
    new = tmp_path / "new.csv"
    new.write_text('id,text,price,label\n007,red hot,1.2345678,x\n008,"blue, cold",,?\n', encoding="utf-8")
    assert call("predict", intents, new) == 0
    rows = rows_of(capsys.readouterr().out)
    assert [*rows[0]] == ["id", "text", "price", "given label", "label", "p(x)", "p(y)", "p(z)"]
    assert [[*row.values()][:4] for row in rows] == [
        ["007", "red hot", "1.2345678", "x"],
        ["008", "blue, cold", "", "?"],
    ]
    assert call("predict", intents, new, "--no-keep-columns") == 0
    bare = rows_of(capsys.readouterr().out)
    assert [*bare[0]] == ["text", "label", "p(x)", "p(y)", "p(z)"]
    assert [row["p(x)"] for row in bare] == [row["p(x)"] for row in rows]
    assert [row["label"] for row in bare] == [row["label"] for row in rows]
    assert {row["label"] for row in rows} <= {*"xyz"}
    assert call("predict", intents, new, "--json", "--top", 1) == 0
    first = json.loads(capsys.readouterr().out.splitlines()[0])
    assert [*first] == ["id", "text", "price", "given label", "label", "probability"]


def test_a_row_without_a_prediction_keeps_its_entries(intents: Path, tmp_path: Path, capsys: Output) -> None:
    new = tmp_path / "new.csv"
    new.write_text("id,text,note\n1,red,mine\n2,,\n", encoding="utf-8")
    assert call("predict", intents, new) == 0
    good, bad = rows_of(capsys.readouterr().out)
    assert (good["id"], good["given note"], good["note"]) == ("1", "mine", "")
    assert (bad["id"], bad["label"]) == ("2", "")
    assert "the sequence is empty" in bad["note"]


def test_typed_columns_are_kept_as_they_are(intents: Path, tmp_path: Path, capsys: Output) -> None:
    frame = pl.DataFrame(
        {"key": [10**15 + 1, 2], "x": [0.123456789, math.nan], "day": [date(2024, 5, 1), None], "text": ["red", "hot"]}
    )
    frame.write_parquet(tmp_path / "new.parquet")
    assert call("predict", intents, tmp_path / "new.parquet", "--json") == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(row["key"], row["x"], row["day"]) for row in rows] == [
        (10**15 + 1, 0.123456789, "2024-05-01"),
        (2, None, None),
    ]
    assert call("predict", intents, tmp_path / "new.parquet") == 0
    assert rows_of(capsys.readouterr().out)[0]["x"] == "0.123456789"


def test_of_sequences_in_long_form_what_their_rows_share_is_kept(tmp_path: Path, capsys: Output) -> None:
    chance = np.random.default_rng(0)
    lines = ["patient,hour,ward,pulse,label"]
    lines += [f"p{n},{t},w{n % 3},{chance.normal() + n % 2:.3f},{'ab'[n % 2]}" for n in range(12) for t in range(4)]
    data = tmp_path / "long.csv"
    data.write_text("\n".join(lines) + "\n", encoding="utf-8")
    options = {**TINY, "id_column": "patient", "time_column": "hour", "features": ("pulse",), "label_column": "label"}
    train(data, out=tmp_path / "run", task="classify", quiet=True, **options)
    capsys.readouterr()
    assert call("predict", tmp_path / "run", data) == 0
    rows = rows_of(capsys.readouterr().out)
    assert [*rows[0]] == ["patient", "ward", "given label", "label", "p(a)", "p(b)"]
    assert [(row["patient"], row["ward"]) for row in rows] == [(f"p{n}", f"w{n % 3}") for n in range(12)]


def test_columns_of_the_same_name_twice_over() -> None:
    row = PredictedRow({"text": "t", "label": 1, "given label": 2}, {"text": "t", "label": "x"})
    table = make_table([row], ("text", "label"))
    assert table.records == [{"text": "t", "given given label": 1, "given label": 2, "label": "x"}]
    assert (table.kept, table.columns) == (("text", "given given label", "given label"), ("label",))
    assert make_table([], ("text", "label")).columns == ("text", "label")
