"""Formats: each is found by name and content, and what is none of them is refused with a list of those that are."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from unspool.data.formats import KNOWN, find_format, has_columns, read_chunk
from unspool.errors import DataError

LABELLED = "".join(f"{n % 2} some words\n" for n in range(20))
RECORDS = [{"text": "a", "label": "x"}, {"text": "b", "label": "y"}]
LINES = "".join(json.dumps(record) + "\n" for record in RECORDS)


@pytest.mark.parametrize(
    ("name", "content", "found"),
    [
        ("a.csv", "a,b\n", "delimited"),
        ("a.TSV", "a\tb\n", "delimited"),
        ("a.jsonl", LINES, "json lines"),
        ("a.txt", LINES, "json lines"),
        ("a.json", json.dumps(RECORDS), "json"),
        ("a.txt", json.dumps(RECORDS, indent=2), "json"),
        ("TREC.train.all", LABELLED, "labelled lines"),
        ("a.ts", "@problemName x\n@data\n1:a\n", "arrays"),
        ("a.ts", "export const x = 1;\n", "text"),
        ("a.txt", "Call me Ishmael.\n", "text"),
        ("a.txt", "[Enter two soldiers]\nWho is there?\n", "text"),
        ("a.txt", "{ a brace }\n", "text"),
        ("a", "", "text"),
    ],
)
def test_by_name_and_content(tmp_path: Path, name: str, content: str, found: str) -> None:
    (tmp_path / name).write_text(content)
    assert find_format(tmp_path / name) == found
    assert has_columns(tmp_path / name) == (found not in ("arrays", "text"))


def test_formats_of_bytes(tmp_path: Path) -> None:
    pl.DataFrame(RECORDS).write_parquet(tmp_path / "part-0")
    assert find_format(tmp_path / "part-0") == "parquet"
    assert read_chunk(tmp_path / "part-0", None).frame.rows() == [("a", "x"), ("b", "y")]
    np.savez(tmp_path / "a.npz", X=np.ones((2, 3)), y=[0, 1])
    assert find_format(tmp_path / "a.npz") == "arrays"


def test_where_a_table_is_needed_few_labelled_lines_are_enough(tmp_path: Path) -> None:
    (tmp_path / "test.all").write_text("1 a film\n2 another\n7 the last\n")
    assert find_format(tmp_path / "test.all") == "text"
    assert read_chunk(tmp_path / "test.all").frame["label"].to_list() == ["1", "2", "7"]


def test_what_is_not_known_names_what_is(tmp_path: Path) -> None:
    (tmp_path / "a.xlsx").write_bytes(b"PK\x03\x04" + bytes(30))
    (tmp_path / "a.json").write_text('{"settings": {"a": 1}}')
    (tmp_path / "a.txt").write_text("a text\n")
    with pytest.raises(DataError) as caught:
        find_format(tmp_path / "a.xlsx")
    assert str(caught.value).endswith(f"Known formats: {KNOWN}.")
    with pytest.raises(DataError, match=r"JSON of a shape that is not known\. Known: "):
        read_chunk(tmp_path / "a.json", None)
    with pytest.raises(DataError, match=r"is text without columns and labels, .*Known formats: CSV") as caught:
        read_chunk(tmp_path / "a.txt", None)
    assert "plain text" not in str(caught.value)
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match=r"is a folder that is no data set. Known formats: CSV"):
        find_format(tmp_path / "empty")


OTHER_LANGUAGES = {
    "JSON": {"a.txt": '{\n "a": {"b": [1, 2]},\n "c": {"d": "x"}\n}\n', "a.ipynb": "[\n 1,\n 2\n]\n"},
    "XML": {"a.xml": "<rows><row>hi</row></rows>\n", "a.txt": '<?xml version="1.0"?>\n<rows/>\n'},
    "YAML": dict.fromkeys(("a.yaml", "a.YML"), "- text: hi\n  label: a\n"),
}


@pytest.mark.parametrize("language", OTHER_LANGUAGES)
def test_other_languages_of_data_are_refused(tmp_path: Path, language: str) -> None:
    for name, content in OTHER_LANGUAGES[language].items():
        (tmp_path / name).write_text(content)
        with pytest.raises(DataError, match=rf"{name} is {language} that .*Known formats: CSV.*`task='lm'`"):
            find_format(tmp_path / name)


def test_an_array_without_targets_is_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.ones((4, 3)))
    with pytest.raises(DataError, match=r"a\.npy is one array of NumPy, and has no targets\. .*numpy\.savez"):
        find_format(tmp_path / "a.npy")
