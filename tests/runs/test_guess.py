"""Which task a file is for: each kind of file, the options that decide, and what is not clear."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.runs.small_files import cycle, sentences, series, stamps, table

from unspool.errors import DataError
from unspool.runs.guess import Guess, guess_task
from unspool.runs.train import plan as read_settings
from unspool.settings.catalogue import SETTINGS
from unspool.tasks.catalogue import TASKS, find_task

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
        ("a.csv", MEASURED, "regress", "`solubility` of a.csv holds numbers"),
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
        ({"train/seq.in": "a b\n", "train/seq.out": "O B-x\n", "train/label": "y\n"}, "joint", "seq.in"),
        ({"train/seq.in": "a b\n", "train/seq.out": "O B-x\n"}, "tag", "seq.in"),
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
    ids=["class files", "books", "slots and labels", "slots", "tables", "texts", "columns", "class folders"],
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
    assert decided["horizon"] == Guess("forecast", "only it has `horizon`")
    assert decided["tied"] == Guess("lm", "only it has `tied`")
    assert decided["label_separator"].task == "multilabel"
    assert decided["hidden"].why == "`label` of a.csv holds labels"
    assert {found.task for found in decided.values()} == {*TASKS} - {"tag", "joint"}  # which have the same settings


def test_settings_that_nobody_has_decide_nothing(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(LABELLED)
    assert guess_task(tmp_path / "a.csv", {"hiden": 3}).task == "classify"
    assert guess_task(None, {}) == Guess("lm", "nothing says otherwise")
    assert guess_task(tmp_path / "none.csv", {}) == Guess("lm", "")


def test_sequences_of_numbers_have_an_id(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id,time,x,label\n1,0,0.5,a\n1,1,0.7,a\n")
    assert guess_task(tmp_path / "a.csv", {"id_column": "id"}).task == "classify"
    found = guess_task(tmp_path / "a.csv", {})
    assert found.settings == {"id_column": "id", "time_column": "time", "label_column": "label"}
    assert guess_task(tmp_path / "a.csv", {"id_column": "id", "target": ["x"], "time_column": "time"}).task == "regress"


def test_what_is_not_clear_is_asked(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("a,b,c\n1x,2,3\n")
    with pytest.raises(DataError, match=r"columns 'a', 'b', 'c'.*`task='classify'` with `text_column` and `label_col"):
        guess_task(tmp_path / "a.csv", {})


def test_alternatives_are_named_where_another_task_would_do(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("review,rating\n" + "".join(f"it is {n},{n % 5}\n" for n in range(25)))
    assert guess_task(tmp_path / "a.csv", {}).why == (
        "`rating` of a.csv holds labels; or `task='regress'`: `rating` of a.csv holds numbers"
    )
    (tmp_path / "b.csv").write_text("review,label\n" + "".join(f"it is {n},{n % 2}\n" for n in range(25)))
    assert guess_task(tmp_path / "b.csv", {}).why == "`label` of b.csv holds labels"


def test_what_the_user_gives_has_precedence(tmp_path: Path) -> None:
    rows = "".join(f"2001-{n:02},{n % 5},{n % 3}\n" for n in range(1, 13))
    (tmp_path / "a.csv").write_text("month,a,b\n" + rows)
    assert read_settings(tmp_path / "a.csv").data.target == ("a", "b")
    assert read_settings(tmp_path / "a.csv", target=["b"]).data.target == ("b",)
    given = guess_task(tmp_path / "a.csv", {"target": ["b"]})
    assert (given.task, given.settings["time_column"]) == ("forecast", "month")


def test_digits_of_stamps_are_never_read_as_text(tmp_path: Path) -> None:
    rows = "".join(f"2023-01-01 {n // 60:02}:{n % 60:02}:00,{n * 7 % 11}.5\n" for n in range(120))
    (tmp_path / "a.csv").write_text("time,y\n" + rows)
    assert guess_task(tmp_path / "a.csv", {}).task == "forecast"
    with pytest.raises(DataError, match="`time` holds times, not texts"):
        find_task("regress").prepare(read_settings(tmp_path / "a.csv", task="regress", target=["y"]).data, 0)


def test_what_is_left_out_of_a_forecast_is_said_and_can_be_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "sales.csv"
    path.write_text(table("date,sales,promo", stamps(90), series(90, 7), cycle(90, 0, 0, 1)), encoding="utf-8")
    why = guess_task(path, {}).why
    assert "without `promo` (few values in `promo`; to forecast all of them, name each in `target`; see" in why
    config = read_settings(path, target=["sales", "promo"])
    assert config.task.prepare(config.data, 0).terms.targets == ("sales", "promo")  # type: ignore[attr-defined]


def test_pairs_without_a_header_lose_no_row(tmp_path: Path) -> None:
    path = tmp_path / "pairs.csv"
    path.write_text(
        table("the first red text,le premier texte rouge", sentences(20), sentences(20, 1)), encoding="utf-8"
    )
    config = read_settings(path)
    task: Any = config.task.prepare(config.data, 0)
    assert sum(len(part.lengths) for part in task.parts.values()) == 21
