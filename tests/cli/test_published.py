"""Data as it is published, with its defects, from file to predictions by the command line and without an edit."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from tests.cli.calling import call

Output = pytest.CaptureFixture[str]
TINY = ("--engine", "torch", "--hidden", "4", "--steps", "3", "--eval-every", "3", "--batch-size", "4", "--json")


def evaluated(capsys: Output, run: Path, *files: object) -> tuple[dict[str, float], str]:
    """The metrics that are printed, and what is said on standard error."""
    capsys.readouterr()
    assert call("evaluate", run, *files, "--json") == 0
    said = capsys.readouterr()
    return json.loads(said.out.splitlines()[-1]), said.err


def predicted(capsys: Output, run: Path, file: object) -> list[dict[str, object]]:
    capsys.readouterr()
    assert call("predict", run, file, "--json") == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def columns(sentences: Sequence[Sequence[tuple[str, str]]], separator: str = " ") -> str:
    return "".join("".join(f"{word}{separator}{tag}\n" for word, tag in one) + "\n" for one in sentences)


def test_atis_with_labels_and_slots_that_training_never_saw(tmp_path: Path, capsys: Output) -> None:
    """Folders with seq.in, seq.out and label; the test data has intents and slots of its own."""
    chance = np.random.default_rng(0)
    cities = ["boston", "denver", "baltimore"]
    for part, count in (("train", 24), ("valid", 6), ("test", 6)):
        folder = tmp_path / "atis" / part
        folder.mkdir(parents=True)
        drawn = [cities[one] for one in chance.integers(0, 3, count)]
        words = [f"{'fares' if n % 2 else 'flights'} to {city} " for n, city in enumerate(drawn)]
        tags = ["O O B-toloc.city_name"] * count
        labels = ["atis_airfare" if n % 2 else "atis_flight" for n in range(count)]
        if part == "test":
            labels[0], labels[3] = "atis_day_name", "atis_flight#atis_airfare"
            tags[0] = "O O B-state_code"
        for name, lines in (("seq.in", words), ("seq.out", tags), ("label", labels)):
            (folder / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    data = tmp_path / "atis"
    for task, whole, kind, unseen in (("classify", "examples", "labels", 2), ("tag", "words", "tags", 1)):
        run = tmp_path / task
        capsys.readouterr()
        assert call("train", data, "--task", task, "--out", run, *TINY) == 0
        said = capsys.readouterr()
        count = 6 if task == "classify" else 18
        assert f"warning: {data / 'test' / 'seq.in'}, line 1: {unseen} of {count} {whole} have a " in said.err
        finished = json.loads(said.out.splitlines()[-1])
        assert finished["test"][f"unseen {kind}"] == unseen
        metrics, err = evaluated(capsys, run)
        assert metrics == {"data": "test", **finished["test"]}
        assert evaluated(capsys, run, data / "test")[0].keys() == metrics.keys()
        assert "warning" in err
        assert metrics[whole] == count
        assert metrics["accuracy"] <= 1 - unseen / metrics[whole]
        assert len(predicted(capsys, run, data / "test")) == 6


def test_cais_with_blanks_open_spans_and_tags_that_training_never_saw(tmp_path: Path, capsys: Output) -> None:
    """A character and its tag per line; a blank is a line with a tag alone, and some spans start with I-."""
    good = [[("放", "O"), ("周", "B-singer"), ("杰", "I-singer"), ("伦", "I-singer"), ("的", "O"), ("歌", "O")]]
    blank = [[("放", "O"), (" ", "O"), ("稻", "I-song"), ("香", "I-song")]]
    (tmp_path / "train.txt").write_text(columns((good + blank) * 8), encoding="utf-8")
    strange = [[("在", "O"), ("北", "B-city"), ("京", "I-city")], [("", "O"), ("歌", "O")]]
    (tmp_path / "test.txt").write_text(columns(good + strange, "\t"), encoding="utf-8")
    run = tmp_path / "run"
    assert call("train", tmp_path / "train.txt", "--test", tmp_path / "test.txt", "--out", run, *TINY) == 0
    said = capsys.readouterr()
    assert "warning: Tags violate the scheme bio, and are read as conlleval reads them." in said.err
    assert "train.txt, line 10: 'I-song' after 'O' continues no span of its kind" in said.err
    assert "2 of 11 words have a tag that does not occur in the training data: 'B-city' (1), 'I-city' (1)" in said.err
    assert json.loads(said.out.splitlines()[0])["task"] == "tag"
    metrics, _ = evaluated(capsys, run, tmp_path / "test.txt")
    assert (metrics["words"], metrics["unseen tags"]) == (11, 2)
    found = predicted(capsys, run, tmp_path / "test.txt")
    assert [row["words"] for row in found] == [[*"放周杰伦的歌"], [*"在北京"], [" ", "歌"]]


def test_resumes_in_bmes_with_open_spans(tmp_path: Path, capsys: Output) -> None:
    """BMES as of ResumeNER: spans that never end, that only end, and single characters with a B-."""
    good = [[("高", "B-NAME"), ("勇", "E-NAME"), (",", "O"), ("男", "S-SEX")]]
    bad = [
        [("高", "B-NAME"), ("小", "M-NAME"), (",", "O")],  # open
        [("经", "M-TITLE"), ("理", "E-TITLE")],  # without a start
        [("汉", "B-RACE"), (",", "O")],  # a single character
    ]
    for name, sentences in (("train", (good + bad) * 6), ("dev", good + bad), ("test", bad)):
        (tmp_path / f"{name}.char.bmes").write_text(columns(sentences), encoding="utf-8")
    run, files = tmp_path / "run", [tmp_path / f"{name}.char.bmes" for name in ("train", "dev", "test")]
    options = ("--validation", files[1], "--test", files[2], "--out", run)
    assert call("train", files[0], *options, *TINY) == 0
    said = capsys.readouterr()
    assert "warning: Tags violate the scheme bioes, and are read as conlleval reads them. 18 problems:" in said.err
    assert "line 7: 'M-NAME' before 'O' leaves its span open" in said.err
    assert "… and 8 more" in said.err
    assert "does not occur" not in said.err  # spans are mended alike in all parts
    metrics, _ = evaluated(capsys, run, files[2])
    assert 0 <= metrics["span F1"] <= 1
    assert len(predicted(capsys, run, files[2])) == 3


def test_clinc_with_splits_of_its_own(tmp_path: Path, capsys: Output) -> None:
    """One JSON file with all splits; those that have no part of their own are said."""
    pairs = [[f"play song {n}", "music"] for n in range(9)] + [[f"rain in {n} days", "weather"] for n in range(9)]
    document = {"oos_test": [["who am i", "oos"]], "val": pairs[::6], "train": pairs, "test": pairs[::9]}
    file = tmp_path / "data_full.json"
    file.write_text(json.dumps(document), encoding="utf-8")
    run = tmp_path / "run"
    assert call("train", file, "--out", run, *TINY) == 0
    said = capsys.readouterr()
    assert f"data_full.json also has oos_test, which are not used. To use one, name it: {file}#oos_test" in said.err
    assert "18 for training, 3 for validation, 2 for test" in said.out
    assert evaluated(capsys, run, f"{file}#test")[0]["accuracy"] == evaluated(capsys, run, file)[0]["accuracy"]
    assert evaluated(capsys, run, f"{file}#oos_test")[0]["unseen labels"] == 1
    assert len(predicted(capsys, run, f"{file}#train")) == 18


def test_trec_in_latin_1_with_its_label_first(tmp_path: Path, capsys: Output) -> None:
    lines = [f"{n % 3} What is a caf\xe9 no. {'abc'[n % 3]} ?" for n in range(30)]
    (tmp_path / "train.all").write_bytes("\n".join(lines).encode("latin-1"))
    (tmp_path / "test.all").write_text("1 What is b ?\n2 What is c ?\n7 What is new ?\n", encoding="utf-8")
    run = tmp_path / "run"
    assert call("train", tmp_path / "train.all", "--test", tmp_path / "test.all", "--out", run, *TINY) == 0
    said = capsys.readouterr()
    assert "train.all is not UTF-8: it is read as CP1252." in said.err
    assert json.loads(said.out.splitlines()[0])["task"] == "classify"
    assert "test.all, line 3: 1 of 3 examples have a label" in said.err
    assert predicted(capsys, run, tmp_path / "train.all")[0]["text"] == "What is a café no. a ?"


@pytest.mark.parametrize("suffix", [".npz", ".ts"])
def test_arrays_with_labels(tmp_path: Path, capsys: Output, suffix: str) -> None:
    chance = np.random.default_rng(0)
    x, y = chance.normal(size=(30, 7)), np.array(["up", "down"] * 15)
    file = tmp_path / f"waves{suffix}"
    if suffix == ".npz":
        np.savez(file, x_train=x[:20], y_train=y[:20], x_test=x[20:], y_test=y[20:])
    else:
        rows = "".join(f"{','.join(map(str, row))}:{label}\n" for row, label in zip(x.tolist(), y, strict=True))
        file.write_text(f"@univariate true\n@classLabel true up down\n@data\n{rows}", encoding="utf-8")
    run = tmp_path / "run"
    assert call("train", file, "--out", run, *TINY) == 0
    assert "labels: 2: down, up" in capsys.readouterr().out.replace('"', "")
    assert 0 <= evaluated(capsys, run, file)[0]["accuracy"] <= 1
    assert len(predicted(capsys, run, file)) == (10 if suffix == ".npz" else 30)


def test_shards_of_training_and_test_data(tmp_path: Path, capsys: Output) -> None:
    """As data sets of Hugging Face are stored."""
    data, run = tmp_path / "data", tmp_path / "run"
    data.mkdir()
    whole = pl.DataFrame({"text": [f"word {n} here" for n in range(40)], "label": ["yes", "no"] * 20})
    for name, begin in (("train-00000-of-00002", 0), ("train-00001-of-00002", 15), ("test-00000-of-00001", 30)):
        whole[begin : begin + (10 if begin == 30 else 15)].write_parquet(data / f"{name}.parquet")
    assert call("train", data, "--out", run, *TINY) == 0
    assert "27 for training, 3 for validation, 10 for test" in capsys.readouterr().out
    assert len(predicted(capsys, run, data)) == 10


def test_pieces_of_a_text_are_one_text(tmp_path: Path, capsys: Output, own_cache: None) -> None:
    for n in range(4):
        name = f"train-{n}.txt" if n < 2 else f"valid-{n}.txt"
        (tmp_path / name).write_text(f"{'abcd'[n]} line of text\n" * 20, encoding="utf-8")
    assert call("train", tmp_path, "--out", tmp_path / "run", "--bptt", "8", *TINY) == 0
    assert "600 for training, 600 for validation (characters)" in capsys.readouterr().out


def test_series_in_rows(tmp_path: Path, capsys: Output) -> None:
    """As those of the M4 competition: a name, then values, and nothing after the last."""
    chance = np.random.default_rng(0)
    rows = [[f"H{n}", *np.round(20 + chance.normal(size=40 + 5 * n), 2), *[""] * (10 - 5 * n)] for n in range(3)]
    file, run = tmp_path / "Hourly-train.csv", tmp_path / "run"
    header = ",".join(f'"V{n}"' for n in range(1, 52))
    file.write_text("\n".join([header, *(",".join(map(str, row)) for row in rows)]) + "\n", encoding="utf-8")
    assert call("train", file, "--out", run, "--horizon", "3", *TINY) == 0
    assert "3 series of 40 to 50 steps" in capsys.readouterr().out
    assert evaluated(capsys, run, file)[0]["MASE"] > 0
    found = predicted(capsys, run, file)
    assert [(row["series"], row["time"]) for row in found] == [
        (f"H{n}", str(step)) for n, last in enumerate((40, 45, 50)) for step in range(last + 1, last + 4)
    ]
