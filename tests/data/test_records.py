"""JSON: every known shape gives the same columns, splits are found, and every bad record is said at once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from unspool.data.records import find_json_splits, is_json_records, read_json, read_json_lines
from unspool.errors import DataError

ROWS = [("book a table", "restaurant"), ("播放音乐", "music")]
RECORDS = [{"text": text, "label": label} for text, label in ROWS]
PAIRS = [list(row) for row in ROWS]


def write(path: Path, document: Any) -> Path:
    path.write_text(json.dumps(document), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    "document",
    [
        RECORDS,
        PAIRS,
        {"text": [text for text, _ in ROWS], "label": [label for _, label in ROWS]},
        {"version": 1, "data": RECORDS},
    ],
    ids=["records", "pairs", "columns", "wrapped"],
)
def test_all_shapes_give_the_same(tmp_path: Path, document: Any) -> None:
    file = write(tmp_path / "a.json", document)
    frame, lines = read_json(file)
    assert frame.columns == ["text", "label"]
    assert frame.rows() == ROWS
    assert lines.tolist() == [1, 2]
    assert find_json_splits(file) == []


@pytest.mark.parametrize("rows", [PAIRS, RECORDS], ids=["pairs", "records"])
def test_splits(tmp_path: Path, rows: list[Any]) -> None:
    file = write(tmp_path / "full.json", {"train": rows, "oos_test": rows[:1], "test": rows[1:]})
    assert find_json_splits(file) == ["train", "oos_test", "test"]
    assert read_json(file, "test")[0].rows() == ROWS[1:]
    assert len(read_json(file)[0]) == 4
    with pytest.raises(DataError, match=r"full\.json has no split 'dev'. It has: train, oos_test, test"):
        read_json(file, "dev")


def test_entries_that_are_missing_or_no_text(tmp_path: Path) -> None:
    frame, _ = read_json(write(tmp_path / "a.json", [{"a": 1}, {"a": None, "b": [1, "é"]}]))
    assert frame.rows() == [("1", None), (None, '[1, "é"]')]


@pytest.mark.parametrize("document", [{}, [], 3, "text", [1, 2], {"a": 1}, {"a": [1], "b": [1, 2]}, [["a", "b", "c"]]])
def test_other_shapes_are_refused_with_the_known_ones(tmp_path: Path, document: Any) -> None:
    file = write(tmp_path / "a.json", document)
    assert not is_json_records(file)
    with pytest.raises(DataError, match=r"a\.json is JSON of a shape that is not known\. Known: a list of records"):
        read_json(file)


def test_what_is_no_json(tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    file.write_text('[{"a": 1}')
    with pytest.raises(DataError, match=r"a\.json: not JSON: .*Correct it"):
        read_json(file)


def test_all_bad_lines_are_said_at_once(tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    file.write_text('{"a": 1}\n{"a": }\n\n["x", "y"]\n7\n')
    with pytest.raises(DataError, match=r"2 problems:\n.*line 2: not JSON.*\n.*line 5: not a record"):
        read_json_lines(file)
