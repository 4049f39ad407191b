"""Which task a file is for: each kind of file, the options that decide, and what is not clear."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from unspool.errors import DataError
from unspool.runs.guess import guess_task
from unspool.settings.catalogue import SETTINGS
from unspool.tasks.catalogue import TASKS

MEASURED = "smiles,solubility\n" + "".join(f"C{'C' * n},{n}.5\n" for n in range(4))
LABELLED = "text,label\ngood day,yes\nbad day,no\n"
SERIES = "month,passengers\n2001-01,5\n2001-02,6\n"
CONLL = "Anna B-name\nsang O\n\nBerlin B-place\nis O\n"


@pytest.mark.parametrize(
    ("name", "content", "task", "why"),
    [
        ("book.txt", "Call me Ishmael.\nSome years ago\n", "lm", "text without columns"),
        ("two words.txt", "never mind\nsome words\n", "lm", "text without columns"),
        ("a.csv", LABELLED, "classify", "`label` of a.csv holds labels"),
        ("a.csv", LABELLED.replace("text,", "remark,"), "classify", "holds labels"),
        (
            "a.csv",
            "text,label\n" + "".join(f"w,{n}.25\n" for n in range(3)),
            "regress",
            "`label` of a.csv holds numbers",
        ),
        ("a.csv", "text,label\nw,1\nv,2\n", "classify", "holds labels"),
        ("a.csv", MEASURED, "regress", "`smiles`"),
        ("a.csv", SERIES, "forecast", "`month` of a.csv holds times"),
        ("a.jsonl", '{"sentence": "hi", "intent": "greet"}\n', "classify", "`intent`"),
        ("a.tsv", "one\teins\ntwo\tzwei\n", "seq2seq", "pairs of texts"),
        ("a.csv", "source,target\none,eins\n", "seq2seq", "pairs of texts"),
        ("a.conll", CONLL, "tag", "ends in .conll"),
        ("a.txt", CONLL, "tag", "a word and a tag"),
        ("a.json", '[{"text": "hi", "intent": "greet"}]', "classify", "`intent` of a.json"),
        ("a.json", '{"train": [["hi", "greet"], ["bye", "leave"]]}', "classify", "`label` of a.json"),
        ("a.txt", '{"text": "hi", "intent": "greet"}\n', "classify", "`intent` of a.txt"),
        ("TREC.train.all", "0 How did it start ?\n1 Who was it ?\n" * 9, "classify", "holds labels"),
        ("a.ts", "@classLabel true a b\n@data\n1,2:a\n2,1:b\n", "classify", "sequences of numbers and labels"),
        ("a.ts", "@targetlabel true\n@data\n1,2:0.5\n2,1:0.7\n", "regress", "a number for each"),
    ],
)
def test_files(tmp_path: Path, name: str, content: str, task: str, why: str) -> None:
    (tmp_path / name).write_text(content)
    found = guess_task(tmp_path / name, {})
    assert found.task == task
    assert why in found.why


@pytest.mark.parametrize(
    ("files", "task", "why"),
    [
        ({"Arabic.txt": "Khoury\nNahas\n", "Czech.txt": "Abl\nAdsit\n", "LICENSE": "MIT\n\n"}, "classify", "labels"),
        ({"a.txt": "Call me\n\nIshmael\n", "b.txt": "Some\n\nyears\n"}, "lm", "text without columns"),
        ({"train/seq.in": "a b\n", "train/seq.out": "O B-x\n", "train/label": "y\n"}, "tag", "seq.in"),
        ({"train.csv": LABELLED, "test.csv": LABELLED}, "classify", "holds labels"),
        ({"train.txt": "Call me Ishmael\n", "valid.txt": "Some years ago\n"}, "lm", "text without columns"),
        ({"train.conll": CONLL, "dev.conll": CONLL}, "tag", "a word and a tag"),
        (
            {
                f"{part}/{kind}/{n}.txt": "A film.\n"
                for part in ("train", "test")
                for kind in ("pos", "neg")
                for n in "12"
            },
            "classify",
            "holds labels",
        ),
    ],
    ids=["class files", "books", "slots", "tables", "texts", "columns", "class folders"],
)
def test_folders(tmp_path: Path, files: dict[str, str], task: str, why: str) -> None:
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(content)
    found = guess_task(tmp_path, {})
    assert found.task == task
    assert why in found.why


@pytest.mark.parametrize("content", ['{"a": 1}', '[{"text": "hi"}', "", "[1, 2]"])
def test_json_of_another_shape_is_never_a_text(tmp_path: Path, content: str) -> None:
    (tmp_path / "a.json").write_text(content)
    with pytest.raises(DataError, match=r"a\.json"):
        guess_task(tmp_path / "a.json", {})


def test_a_file_that_is_no_text_names_the_known_formats(tmp_path: Path) -> None:
    (tmp_path / "a.xlsx").write_bytes(b"PK\x03\x04" + bytes(30))
    with pytest.raises(DataError, match="Known formats: CSV, TSV, JSON"):
        guess_task(str(tmp_path / "a.xlsx"), {})


@pytest.mark.parametrize(
    ("options", "task"),
    [
        ({"label_column": "b"}, "classify"),
        ({"target": ["b"]}, "regress"),
        ({"target": ["b"], "time_column": "a"}, "forecast"),
        ({"horizon": 3}, "forecast"),
        ({"source_column": "a"}, "seq2seq"),
    ],
)
def test_options_decide(tmp_path: Path, options: dict[str, Any], task: str) -> None:
    (tmp_path / "a.csv").write_text("a,b,c\n1x,2,3\n")
    assert guess_task(tmp_path / "a.csv", options).task == task


def test_a_setting_that_one_task_has_decides_and_others_do_not(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(LABELLED)
    decided = {}
    for name, setting in SETTINGS.items():
        if name != "target":
            decided[name] = guess_task(tmp_path / "a.csv", {name: None})
            expected = setting.tasks[0] if len(setting.tasks) == 1 else "classify"
            assert decided[name].task == expected, name
    assert decided["horizon"] == ("forecast", "only it has `horizon`")
    assert decided["tied"] == ("lm", "only it has `tied`")
    assert decided["crf"].task == "tag"
    assert decided["hidden"].why == "`label` of a.csv holds labels"
    assert {found.task for found in decided.values()} == {*TASKS}


def test_settings_that_nobody_has_decide_nothing(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(LABELLED)
    assert guess_task(tmp_path / "a.csv", {"hiden": 3}).task == "classify"
    assert guess_task(None, {}) == ("lm", "nothing says otherwise")
    assert guess_task(tmp_path / "none.csv", {}) == ("lm", "")


def test_sequences_of_numbers_have_an_id(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id,time,x,label\n1,0,0.5,a\n1,1,0.7,a\n")
    assert guess_task(tmp_path / "a.csv", {"id_column": "id"}).task == "classify"
    with pytest.raises(DataError, match="is not clear"):
        guess_task(tmp_path / "a.csv", {})
    assert guess_task(tmp_path / "a.csv", {"id_column": "id", "target": ["x"], "time_column": "time"}).task == "regress"


def test_what_is_not_clear_is_asked(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("a,b,c\n1x,2,3\n")
    with pytest.raises(DataError, match=r"columns 'a', 'b', 'c'.*`task='classify'` with `label_column`"):
        guess_task(tmp_path / "a.csv", {})
    (tmp_path / "b.csv").write_text("en,de\none,eins\n")  # the task would take such a header for a pair
    with pytest.raises(DataError, match="is not clear"):
        guess_task(tmp_path / "b.csv", {})
