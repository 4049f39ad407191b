"""unspool predict: the values of the task's own predictions, as CSV and as JSON lines, and what is refused."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from tests.cli.calling import call, refused

from unspool.partitions.tables import as_csv
from unspool.runs.load import load_run
from unspool.runs.train import train

Output = pytest.CaptureFixture[str]

TINY: dict[str, Any] = {"engine": "torch", "hidden": 4, "steps": 3, "eval_every": 3, "batch_size": 4}
WORDS = ("red", "green", "blue", "hot", "cold")


class Example(NamedTuple):
    """A run, and new data without targets."""

    run: Path
    data: Path


def sentences(count: int) -> list[str]:
    chance = np.random.default_rng(0)
    return [" ".join(WORDS[one] for one in chance.integers(0, 5, 2 + number % 4)) for number in range(count)]


TEXTS = sentences(24)
#: By task: the names of the files, training data, new data without targets.
DATA = {
    "classify": (
        "csv",
        "text,label\n" + "".join(f"{text},{'xyz'[n % 3]}\n" for n, text in enumerate(TEXTS)),
        'text\nred hot\n"blue, cold"\n',
    ),
    "regress": (
        "csv",
        "text,target\n" + "".join(f"{text},{len(text) / 4}\n" for text in TEXTS),
        "text\nred hot\ncold\n",
    ),
    "tag": (
        "conll",
        "\n".join(
            "".join(f"{word} {'B-x' if word in WORDS[3:] else 'O'}\n" for word in text.split()) for text in TEXTS
        ),
        "red\nhot\n\ncold\n",
    ),
    "seq2seq": ("tsv", "".join(f"{text}\t{text[::-1]}\n" for text in TEXTS), "red hot\ncold\n"),
    "forecast": (
        "csv",
        "month,value\n" + "".join(f"{2001 + n // 12}-{n % 12 + 1:02},{n % 4 + n / 9:.2f}\n" for n in range(60)),
        "month,value\n" + "".join(f"{2011 + n // 12}-{n % 12 + 1:02},{n % 4}.5\n" for n in range(24)),
    ),
}


@pytest.fixture(scope="module", params=DATA)
def example(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Example:
    folder = tmp_path_factory.mktemp(request.param)
    suffix, training, new = DATA[request.param]
    (folder / f"training.{suffix}").write_text(training, encoding="utf-8")
    (folder / f"new.{suffix}").write_text(new, encoding="utf-8")
    options = TINY | ({"horizon": 3, "validation": 6} if request.param == "forecast" else {})
    train(folder / f"training.{suffix}", out=folder / "run", task=request.param, **options)
    return Example(folder / "run", folder / f"new.{suffix}")


def own_predictions(example: Example) -> tuple[Any, list[dict[str, Any]]]:
    """The task, and what it predicts for the same file in Python."""
    _, task, learner = load_run(example.run)
    return task, list(task.predict_files(learner, [str(example.data)]))


def test_json_lines_are_the_predictions_of_the_task(example: Example, capsys: Output) -> None:
    assert call("predict", example.run, example.data, "--json") == 0
    printed = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    task, expected = own_predictions(example)
    assert printed == expected
    assert [list(row) for row in printed] == [list(task.prediction_columns)] * len(expected)
    assert len(printed) == (3 if task.name == "forecast" else 2)


def test_csv_has_the_same_values_in_six_digits(example: Example, capsys: Output) -> None:
    assert call("predict", example.run, example.data) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    task, expected = own_predictions(example)
    assert [list(row) for row in rows] == [list(task.prediction_columns)] * len(expected)
    for row, record in zip(rows, expected, strict=True):
        for name, value in record.items():
            if isinstance(value, float):
                assert float(row[name]) == pytest.approx(value, rel=1e-5)
            elif isinstance(value, list) and isinstance(value[0], float):
                assert [float(one) for one in row[name].split(" ")] == pytest.approx(value, rel=1e-5)
            elif isinstance(value, list):
                assert row[name].split(" ") == value
            else:
                assert row[name] == value


@pytest.mark.parametrize("suffix", [".csv", ".jsonl", ".JSONL"])
def test_a_file_holds_what_is_printed(example: Example, suffix: str, tmp_path: Path, capsys: Output) -> None:
    out = tmp_path / f"predictions{suffix}"
    assert call("predict", example.run, example.data, *([] if suffix == ".csv" else ["--json"])) == 0
    printed = capsys.readouterr().out
    assert call("predict", example.run, example.data, "--out", out) == 0
    told = capsys.readouterr()
    assert out.read_text(encoding="utf-8") == printed
    assert told.out == ""
    assert told.err.split() == [str(len(own_predictions(example)[1])), "predictions", "in", str(out)]


def test_targets_in_the_data_change_nothing(example: Example, capsys: Output) -> None:
    """The training file has the targets, and gives predictions for every example of it."""
    training = next(example.data.parent.glob("training.*"))
    assert call("predict", example.run, training, "--json") == 0
    printed = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    _, task, _ = load_run(example.run)
    assert len(printed) == (3 if task.name == "forecast" else len(TEXTS))


def test_the_next_steps_of_a_series_have_their_times_and_rising_quantiles(
    tmp_path: Path, capsys: Output, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("s.csv").write_text(DATA["forecast"][1], encoding="utf-8")
    train("s.csv", out="run", task="forecast", horizon=3, validation=6, quiet=True, **TINY)
    assert call("predict", "run", "s.csv") == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert [row["time"] for row in rows] == ["2006-01", "2006-02", "2006-03"]
    assert [row["target"] for row in rows] == ["value"] * 3
    for row in rows:
        assert float(row["q0.1"]) < float(row["q0.5"]) < float(row["q0.9"])


def test_a_table_without_rows_has_a_header() -> None:
    assert as_csv([], ("text", "label")) == "text,label\n"
    cells = {"text": 'a "b", c', "p": 0.123456789, "tags": ["O", "B-x"], "ps": [0.5, 1 / 3]}
    assert as_csv([cells], tuple(cells)) == 'text,p,tags,ps\n"a ""b"", c",0.123457,O B-x,0.5 0.333333\n'


def test_a_language_model_predicts_no_table(tmp_path: Path, capsys: Output, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNSPOOL_CACHE", str(tmp_path / "cache"))
    text = tmp_path / "book.txt"
    text.write_text("to be or not to be\n" * 40, encoding="utf-8")
    train(text, out=tmp_path / "run", bptt=4, **TINY)
    said = refused(capsys, "predict", tmp_path / "run", text)
    assert "is of the task lm, which predicts no table" in said
    assert f"unspool generate {tmp_path / 'run'} --prompt TEXT" in " ".join(said.split())


def test_wrong_input_is_refused(example: Example, tmp_path: Path, capsys: Output) -> None:
    said = refused(capsys, "predict", example.run, example.data, "--out", tmp_path / "predictions.txt")
    assert "is neither CSV nor JSON lines. End it in .csv or .jsonl" in said
    assert "there is no file" in refused(capsys, "predict", example.run, tmp_path / "none.csv")
    assert not (tmp_path / "predictions.txt").exists()
    refused(capsys, "predict", tmp_path / "no run", example.data)


# ── rows that cannot be read, lines, literal texts, standard input ──


@pytest.fixture(scope="module")
def intents(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("intents")
    (folder / "training.csv").write_text(DATA["classify"][1], encoding="utf-8")
    train(folder / "training.csv", out=folder / "run", task="classify", max_length=20, **TINY)
    return folder / "run"


def rows_of(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


@pytest.mark.parametrize(
    ("name", "content", "bad"),
    [
        ("new.csv", 'text,n\nred hot,1\n,2\ncold\n"blue, red",4\n', {1: "line 3: the seq", 2: "line 4: 1 entries"}),
        ("new.csv", 'text,n\nred hot,1\n"blue" red,2\nred,3\n', {1: "line 3: 1 entries, where the first line has 2"}),
        ("new.jsonl", '{"text": "red hot"}\n{"text": }\n[]\n{"n": 3}\n', {1: "not JSON", 2: "record", 3: "is empty"}),
        ("new.txt", "red hot\n\nblue\n" + "red " * 21 + "\n", {1: "line 2: the sequence is empty", 3: "21 steps"}),
        ("new.csv", 'text\n""\n', {0: "line 2: the sequence is empty"}),
        ("new.csv", "text\nred\n\nblue\n\n", {1: "line 3: the sequence is empty"}),
    ],
    ids=["ragged", "quotes", "json", "lines", "nothing", "empty line"],
)
def test_a_row_that_cannot_be_read_has_a_note(
    intents: Path, tmp_path: Path, capsys: Output, name: str, content: str, bad: dict[int, str]
) -> None:
    (tmp_path / name).write_text(content, encoding="utf-8")
    assert call("predict", intents, tmp_path / name) == 0
    said = capsys.readouterr()
    rows = rows_of(said.out)
    for index, row in enumerate(rows):
        assert (row["label"] == "") == (index in bad)
        assert bad.get(index, "") in row["note"]
        assert bool(row["note"]) == (index in bad)
    assert f"warning: {len(bad)} of {len(rows)} rows have no prediction." in said.err
    # those that can be read have the predictions that they have alone
    texts = [row["text"] for index, row in enumerate(rows) if index not in bad]
    if texts:
        assert call("predict", intents, *(word for text in texts for word in ("--text", text))) == 0
        alone = rows_of(capsys.readouterr().out)
        assert [row["p(x)"] for row in alone] == [row["p(x)"] for i, row in enumerate(rows) if i not in bad]


def test_json_has_null_where_there_is_no_prediction(intents: Path, tmp_path: Path, capsys: Output) -> None:
    (tmp_path / "new.txt").write_text("red hot\n\n", encoding="utf-8")
    assert call("predict", intents, tmp_path / "new.txt", "--json") == 0
    good, bad = (json.loads(line) for line in capsys.readouterr().out.splitlines())
    assert "note" not in good
    assert (bad["text"], bad["label"], bad["p(x)"]) == ("", None, None)
    assert bad["note"].endswith("line 2: the sequence is empty. Leave it out, or give it at least one step.")


@pytest.mark.parametrize(
    ("given", "texts"),
    [
        ("red hot\ncold\n", ["red hot", "cold"]),
        ('{"text": "red hot"}\n{"text": "cold"}\n', ["red hot", "cold"]),
        ('n,text\n1,red hot\n2,"cold, blue"\n', ["red hot", "cold, blue"]),
        ("text\tn\nred hot\t1\n", ["red hot"]),
        ("text;n\nred hot;1\ncold, blue;2\n", ["red hot", "cold, blue"]),
        ("\ufefftext,n\nred hot,1\n", ["red hot"]),
        ('"n","text"\n1,red hot\n', ["red hot"]),
    ],
    ids=["lines", "json", "csv", "tsv", "semicolons", "byte order mark", "quoted names"],
)
def test_standard_input(
    intents: Path, capsys: Output, monkeypatch: pytest.MonkeyPatch, given: str, texts: list[str]
) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(given.encode())))
    assert call("predict", intents, "-", "--no-keep-columns") == 0
    piped = capsys.readouterr().out
    assert [row["text"] for row in rows_of(piped)] == texts
    assert call("predict", intents, *(word for text in texts for word in ("--text", text))) == 0
    assert capsys.readouterr().out == piped


PAIRS = "given,wanted\n" + "".join(f"{text},{text[::-1]}\n" for text in TEXTS)


@pytest.mark.parametrize(
    ("training", "new", "settings"),
    [
        (*DATA["forecast"][1:], {"task": "forecast", "horizon": 3, "validation": 6}),
        (PAIRS, "wanted,given\n?,red hot\n?,cold\n", {"task": "seq2seq", "source_column": "given"}),
    ],
    ids=["forecast", "seq2seq"],
)
def test_a_table_of_any_task_is_read_from_standard_input_as_from_a_file(
    training: str, new: str, settings: dict[str, Any], tmp_path: Path, capsys: Output, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "training.csv").write_text(training, encoding="utf-8")
    (tmp_path / "new.csv").write_text(new, encoding="utf-8")
    run = train(tmp_path / "training.csv", out=tmp_path / "run", quiet=True, **TINY, **settings).path
    capsys.readouterr()
    assert call("predict", run, tmp_path / "new.csv") == 0
    expected = capsys.readouterr().out
    assert "given wanted" not in expected
    assert ("wanted,given," in expected) == ("source_column" in settings)  # the columns of the input are kept
    for given in (new, new.replace(",", ";"), new.replace(",", "\t")):
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(given.encode())))
        assert call("predict", run, "-") == 0
        assert capsys.readouterr().out == expected


def test_pairs_without_a_header_on_standard_input(
    capsys: Output, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "training.tsv").write_text(DATA["seq2seq"][1], encoding="utf-8")
    run = train(tmp_path / "training.tsv", out=tmp_path / "run", task="seq2seq", quiet=True, **TINY).path
    for given in ("red hot\tx\ncold\ty\n", "red hot\ncold\n"):
        capsys.readouterr()
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(given.encode())))
        assert call("predict", run, "-") == 0
        assert [row["source"] for row in rows_of(capsys.readouterr().out)] == ["red hot", "cold"]


@pytest.mark.parametrize(
    ("given", "sources"),
    [
        ("red hot,x\ncold,y\n", ["red hot", "cold"]),
        ('"red, hot",x\n"co\nld",y\n', ["red, hot", "co\nld"]),
        ("red hot;x\ncold, blue;y\n", ["red hot", "cold, blue"]),
        ('"red, hot"\ncold\n', ["red, hot", "cold"]),
        ("red hot\ncold\n", ["red hot", "cold"]),
        ("red, hot, blue\ncold\n", ["red, hot, blue", "cold"]),
    ],
    ids=["pairs", "quotes", "semicolons", "quoted sources", "lines", "lines with commas"],
)
def test_csv_of_pairs_without_a_header_on_standard_input(
    capsys: Output, monkeypatch: pytest.MonkeyPatch, pairs_run: Path, given: str, sources: list[str]
) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(given.encode())))
    assert call("predict", pairs_run, "-") == 0
    assert [row["source"] for row in rows_of(capsys.readouterr().out)] == sources


@pytest.fixture(scope="module")
def pairs_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run on CSV of pairs that has no header."""
    folder = tmp_path_factory.mktemp("pairs")
    (folder / "training.csv").write_text(DATA["seq2seq"][1].replace("\t", ","), encoding="utf-8")
    return train(folder / "training.csv", out=folder / "run", task="seq2seq", quiet=True, **TINY).path


def test_notes_and_errors_of_standard_input_do_not_name_a_temporary_file(
    intents: Path, capsys: Output, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"red\n\n")))
    assert call("predict", intents, "-") == 0
    assert rows_of(capsys.readouterr().out)[1]["note"].startswith("standard input, line 2: ")
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(bytes(9))))
    assert "standard input is not text" in refused(capsys, "predict", intents, "-")


def test_the_best_labels(intents: Path, capsys: Output) -> None:
    assert call("predict", intents, "--text", "red hot", "--json") == 0
    whole = json.loads(capsys.readouterr().out)
    ranked = sorted("xyz", key=lambda label: -whole[f"p({label})"])
    assert call("predict", intents, "--text", "red hot", "--top", 2, "--json") == 0
    assert json.loads(capsys.readouterr().out) == {
        "text": "red hot",
        "label": ranked[0],
        "probability": whole[f"p({ranked[0]})"],
        "label 2": ranked[1],
        "probability 2": whole[f"p({ranked[1]})"],
    }
    assert call("predict", intents, "--text", "red hot", "--top", 9) == 0
    assert len(rows_of(capsys.readouterr().out)[0]) == 7  # there are three labels


def test_a_text_for_each_task(example: Example, capsys: Output) -> None:
    _, task, _ = load_run(example.run)
    if task.name == "forecast":
        assert "does not predict from texts" in refused(capsys, "predict", example.run, "--text", "red hot")
    else:
        assert call("predict", example.run, "--text", "red hot", "--text", "cold", "--json") == 0
        first = [next(iter(json.loads(line).values())) for line in capsys.readouterr().out.splitlines()]
        assert first == ([["red", "hot"], ["cold"]] if task.name == "tag" else ["red hot", "cold"])
    if task.name != "classify":
        assert "`top` (=2) is for labels" in refused(capsys, "predict", example.run, example.data, "--top", 2)


def test_either_files_or_texts(intents: Path, capsys: Output) -> None:
    assert 'must be given, or texts instead. Give a file, -, or --text "…".' in refused(capsys, "predict", intents)
    assert "must be given" in refused(capsys, "predict", intents, "a.csv", "--text", "red")
