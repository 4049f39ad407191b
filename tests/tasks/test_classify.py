"""Classification: what it learns, what it says, what it refuses; and rivals that have no memory."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.metrics import f1_score
from tests.cli.calling import call
from tests.tasks.labelled_texts import ordered_texts, write_table

import unspool
from unspool.cli.main import main
from unspool.data.labelled import Raw
from unspool.errors import ArgumentError, DataError, DataWarning
from unspool.models.catalogue import make_learner
from unspool.models.pooled import Classifier
from unspool.runs.load import load_run
from unspool.runs.train import Trained, plan
from unspool.settings.data import LabelledData
from unspool.settings.model import PooledSettings
from unspool.tasks.classify import Classification

Capture = pytest.CaptureFixture[str]
SMALL: dict[str, Any] = {"hidden": 16, "lr": 0.02, "batch_size": 32, "tokenizer": "char"}


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Trained:
    """A model that tells orders apart, and its rivals that cannot."""
    folder = tmp_path_factory.mktemp("order")
    table = write_table(folder / "order.csv", ordered_texts(400))
    return unspool.train(table, out=folder / "run", epochs=6, test=0.2, baselines=True, **SMALL)


def test_order_is_learned_with_memory_alone(trained: Trained) -> None:
    finished = trained.finished
    assert finished.test["accuracy"] > 0.97
    assert finished.task == "classify"
    assert set(finished.baselines) >= {"bag of vectors", "shared FCN, summed", "1-D convolution"}
    for name in ("bag of vectors", "shared FCN, summed"):
        assert finished.baselines[name]["accuracy"] < 0.75


def test_a_run_can_be_loaded_and_says_the_same(trained: Trained) -> None:
    _, task, learner = load_run(trained.path)
    assert isinstance(task, Classification)
    own = trained.task
    assert isinstance(own, Classification)
    part = own.parts["validation"]
    rows = np.arange(len(part.lengths))
    loss, predictions = task.infer(learner, part, rows)  # type: ignore[arg-type]
    assert loss == pytest.approx(trained.finished.validation["loss"], rel=1e-6)
    assert np.stack(predictions).sum(1) == pytest.approx(np.ones(len(rows)))


def test_predictions_as_a_table(trained: Trained, tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "new.csv").write_text("text\ncacdbd\ncbcdad\n")
    with pytest.raises(SystemExit) as left:
        main(["predict", str(trained.path), str(tmp_path / "new.csv")])
    assert left.value.code in (0, None)
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert [row["label"] for row in rows] == ["ab", "ba"]
    assert float(rows[0]["p(ab)"]) + float(rows[0]["p(ba)"]) == pytest.approx(1, abs=1e-5)
    with pytest.raises(SystemExit):
        main(["predict", str(trained.path), str(tmp_path / "new.csv"), "--out", str(tmp_path / "p.jsonl")])
    records = [json.loads(line) for line in (tmp_path / "p.jsonl").read_text().splitlines()]
    assert [record["label"] for record in records] == ["ab", "ba"]
    with pytest.raises(SystemExit) as left:
        main(["predict", str(trained.path), str(tmp_path / "new.csv"), "--out", str(tmp_path / "p.txt")])
    assert left.value.code == 2


def test_evaluation_of_other_files(trained: Trained, tmp_path: Path, capsys: Capture) -> None:
    table = write_table(tmp_path / "other.csv", ordered_texts(50, seed=9))
    with pytest.raises(SystemExit):
        main(["evaluate", str(trained.path), str(table), "--json"])
    assert json.loads(capsys.readouterr().out)["accuracy"] > 0.9


def test_the_guess_is_said(tmp_path: Path) -> None:
    table = write_table(tmp_path / "order.csv", ordered_texts(20))
    assert plan(table).guessed == "`label` of order.csv holds labels"
    assert plan(table).task is Classification
    assert plan(table, task="classify").guessed == ""


def test_padding_and_company_change_nothing() -> None:
    raw = Raw(["ab", "abcde", "a"], None, ["0", "1", "2"], str, [("x",), ("y",), ("x",)])
    data = LabelledData(files=("memory",), tokenizer="char")
    task = Classification.of({"training": raw, "validation": raw}, data)
    for pooling in ("attention", "mean", "max", "last"):
        torch.manual_seed(1)
        settings = PooledSettings.model_validate({"hidden": 5, "layers": 2, "pooling": pooling})
        learner = make_learner(task, settings).double().eval()
        part = task.parts["training"]
        _, together = task.infer(learner, part, np.arange(3))
        alone = [task.infer(learner, part, np.array([row]))[1][0] for row in range(3)]
        np.testing.assert_allclose(together, alone, rtol=0, atol=1e-12)


def test_numbers_in_long_form_are_scaled_by_training_alone(tmp_path: Path) -> None:
    lines = ["id,time,a,b,label"]
    for number in range(8):
        lines += [f"s{number},{step},{number + step},{3 * step},{'up' if number % 2 else 'down'}" for step in range(3)]
    (tmp_path / "steps.csv").write_text("\n".join(lines) + "\n")
    data = LabelledData(files=(str(tmp_path / "steps.csv"),), id_column="id", time_column="time", validation=0.25)
    task = Classification.prepare(data, 0)
    values = task.parts["training"].inputs.values
    np.testing.assert_allclose(values.mean(0), 0, atol=1e-6)
    np.testing.assert_allclose(values.std(0), 1, atol=1e-6)
    assert task.inputs.features == 2


BAD = [
    ("text,label\na,x\nb,x\nc,x\n", {}, "all training examples have the label 'x'"),
    ("text,label\na,x\nb\nc,x\n", {}, "line 3"),
    ("text,label\na,x\n,y\nc,x\n", {}, "line 3: `text` is empty"),
    ("text,label\na,x\nb,\nc,x\n", {}, "line 3: `label` is empty"),
    ("text,label\na,x\nb,y\nc,x\n", {"label_column": "lable"}, "'label'"),
    ("text,label\naaaa,x\nb,y\nc,x\n", {"max_length": 3}, "4 steps, more than `max_length`"),
    ("one,two,three\na,x,1\nb,y,2\n", {"task": "classify"}, "which has the labels is not clear"),
    ("", {"task": "classify"}, "empty"),
    ("id,time,v,label\na,2,1,x\na,1,1,x\n", {"id_column": "id", "time_column": "time"}, "line 3: `time` is earlier"),
    ("id,time,v,label\na,1,1,x\na,1,1,x\n", {"id_column": "id", "time_column": "time"}, "line 3: `time` has the time"),
    ("id,time,v,label\na,1,1,x\na,2,1,y\n", {"id_column": "id", "time_column": "time"}, "one target"),
    ("id,v,label\na,nan,x\nb,1,y\n", {"id_column": "id"}, "line 2: `v` is 'nan'"),
    ("id,v,label\na,1,x\nb,one,y\n", {"id_column": "id"}, "'one'"),
]


@pytest.mark.parametrize(("content", "options", "message"), BAD)
def test_bad_tables_are_refused_and_nothing_is_written(
    tmp_path: Path, content: str, options: dict[str, Any], message: str
) -> None:
    (tmp_path / "bad.csv").write_text(content)
    out = tmp_path / "run"
    with pytest.raises((DataError, ArgumentError)) as caught:
        unspool.train(tmp_path / "bad.csv", out=out, steps=1, **{"task": "classify", **options})
    assert message in str(caught.value)
    assert not out.exists()


def test_a_label_of_the_test_data_alone_counts_as_wrong(tmp_path: Path) -> None:
    train = write_table(tmp_path / "train.csv", ordered_texts(40))
    test = write_table(tmp_path / "test.csv", [("ab", "ab"), ("ba", "new"), ("ab", "ab"), ("ba", "other")])
    message = r"test.csv, line 3: 2 of 4 examples have a label that does not.*: 'new' \(1\), 'other' \(1\). They count"
    with pytest.warns(DataWarning, match=message):
        run = unspool.train(train, out=tmp_path / "run", steps=2, test=[str(test)], **SMALL)
    task = run.task
    assert isinstance(task, Classification)
    assert isinstance(run.learner, Classifier)
    known = write_table(tmp_path / "known.csv", [("ab", "ab"), ("ab", "ab")])
    expected = task.evaluate_files(run.learner, known)
    with pytest.warns(DataWarning, match=message):
        found = task.evaluate_files(run.learner, test)
    assert run.finished.test == found
    assert found["loss"] == pytest.approx(expected["loss"])  # over the known labels alone
    assert found["accuracy"] == pytest.approx(expected["accuracy"] / 2)
    assert (found["examples"], found["unseen labels"]) == (4, 2)
    with pytest.warns(DataWarning):
        part = task.read(test)
    _, predictions = task.infer(run.learner, part, np.arange(4))
    y_pred = [task.labels[int(one.argmax())] for one in predictions]
    assert found["macro-F1"] == pytest.approx(f1_score(["ab", "new", "ab", "other"], y_pred, average="macro"))
    assert task.show(part, 1, predictions[1]).endswith(", not new")


def test_data_whose_labels_are_all_unseen_has_metrics_and_no_loss(tmp_path: Path) -> None:
    train = write_table(tmp_path / "train.csv", ordered_texts(40))
    test = write_table(tmp_path / "test.csv", [("ab", "new"), ("ba", "other")])
    with pytest.warns(DataWarning, match="2 of 2 examples"):
        run = unspool.train(train, out=tmp_path / "run", steps=2, test=[str(test)], **SMALL)
    expected = {"accuracy": 0, "macro-F1": 0, "examples": 2, "unseen labels": 2}
    assert run.finished.test == expected
    task = run.task
    assert isinstance(task, Classification)
    assert task.baselines("test")["majority class"] == expected
    assert call("evaluate", run.path, test) == 0


def test_validation_data_needs_some_known_label(tmp_path: Path) -> None:
    train = write_table(tmp_path / "train.csv", ordered_texts(40))
    other = write_table(tmp_path / "other.csv", [("ab", "new")])
    with pytest.warns(DataWarning), pytest.raises(DataError, match="none of the validation data has labels that"):
        unspool.train(train, out=tmp_path / "run", steps=1, validation=[str(other)], **SMALL)
    assert not (tmp_path / "run").exists()


def test_baselines_are_measured_over_the_same_examples(tmp_path: Path) -> None:
    rows = ordered_texts(40)
    train = write_table(tmp_path / "train.csv", rows)
    valid = write_table(tmp_path / "valid.csv", [*rows[:4], ("ba", "new")])
    with pytest.warns(DataWarning):
        task = Classification.prepare(LabelledData(files=(str(train),), validation=(str(valid),)), seed=0)
    found = task.baselines()["majority class"]
    share = np.mean([label == max(task.labels, key=[one for _, one in rows].count) for _, label in rows[:4]])
    assert found["accuracy"] == pytest.approx(share * 4 / 5)
    assert np.isfinite(found["loss"])
    assert found["unseen labels"] == 1


def test_a_window_is_refused(tmp_path: Path) -> None:
    table = write_table(tmp_path / "order.csv", ordered_texts(40))
    with pytest.raises(ArgumentError, match="`bptt`"):
        unspool.train(table, out=tmp_path / "run", steps=1, bptt=8, **SMALL)
    assert not (tmp_path / "run").exists()


def test_torchs_layers_say_the_same_sizes_and_learn_too(tmp_path: Path) -> None:
    table = write_table(tmp_path / "order.csv", ordered_texts(200))
    found = unspool.train(table, out=tmp_path / "run", epochs=8, engine="torch", **SMALL)
    assert found.finished.validation["accuracy"] > 0.9


def test_a_run_reads_later_files_by_the_columns_that_it_guessed(tmp_path: Path) -> None:
    rows = ordered_texts(60)
    (tmp_path / "train.csv").write_text("sentence,label\n" + "".join(f"{text},{label}\n" for text, label in rows))
    run = unspool.train(tmp_path / "train.csv", out=tmp_path / "run", steps=2, **SMALL)
    _, task, learner = load_run(run.path)
    assert isinstance(task, Classification)
    (tmp_path / "new.csv").write_text("text,sentence\nWRONG,cacb\n")
    assert task.read(tmp_path / "new.csv", targets=False).raw.texts == ["cacb"]
    (tmp_path / "other.csv").write_text("text,label\nab,ab\n")
    with pytest.raises(DataError, match="`sentence`|'sentence'"):
        task.evaluate_files(learner, tmp_path / "other.csv")


def test_a_column_is_not_learned_from_itself(tmp_path: Path) -> None:
    table = write_table(tmp_path / "order.csv", ordered_texts(40))
    same: dict[str, Any] = {"task": "classify", "text_column": "label", "label_column": "label"}
    with pytest.raises(ArgumentError, match="is also the column to predict"):
        unspool.train(table, out=tmp_path / "run", steps=1, **same, **SMALL)


def test_a_run_is_no_data(trained: Trained, tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match="is a run folder.*`resume=True`"):
        unspool.train(trained.path, out=tmp_path / "run", steps=1)


def test_the_card_says_how_to_use_it(trained: Trained) -> None:
    card = (trained.path / "MODEL_CARD.md").read_text()
    assert "unspool predict" in card
    assert "unspool generate" not in card
    assert "| bag of vectors, validation |" in card


def test_a_test_part_without_labels_is_left_out(tmp_path: Path) -> None:
    rows = "".join(f"play {n},music\nrain {n},weather\n" for n in range(20))
    (tmp_path / "train.csv").write_text(f"text,label\n{rows}")
    (tmp_path / "test.csv").write_text("text\nplay it\nrain now\n")
    for named in (None, "label"):
        data = LabelledData(files=(str(tmp_path),), label_column=named)
        with pytest.warns(DataWarning, match=r"test\.csv has no column 'label', and is not used as test data"):
            task = Classification.prepare(data, seed=0)
        assert {part: len(own.lengths) for part, own in task.parts.items() if len(own.lengths)} == {
            "training": 36,
            "validation": 4,
        }
    learner = make_learner(task, PooledSettings(hidden=4))
    assert [row["text"] for row in task.predict_files(learner, str(tmp_path))] == ["play it", "rain now"]
    with pytest.raises(DataError, match="has no column 'label'"):
        Classification.prepare(data.model_copy(update={"test": (str(tmp_path / "test.csv"),)}), seed=0)
    (tmp_path / "test.csv").write_text("text,label\nplay it,music\n")
    assert len(Classification.prepare(data, seed=0).parts["test"].lengths) == 1
