"""Multi-label classification: sets of labels in every form people keep them, metrics against scikit-learn's."""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.metrics import f1_score
from sklearn.preprocessing import MultiLabelBinarizer
from tests.tensors import as_tensors
from torch.nn import functional

import unspool
from unspool.data.label_sets import guess_separator, holds_sets, split_labels
from unspool.errors import DataError, DataWarning
from unspool.models.catalogue import make_learner
from unspool.partitions.tables import choose_top
from unspool.runs.load import load_run
from unspool.runs.train import plan
from unspool.settings.data import MultiLabelData
from unspool.settings.model import PooledSettings
from unspool.tasks.metrics import label_set_scores
from unspool.tasks.multilabel import MultiLabelClassification

SMALL: dict[str, Any] = {"hidden": 16, "lr": 0.02, "batch_size": 16, "tokenizer": "word"}
TOPICS = {"goal": "sports", "vote": "politics", "film": "arts"}


def topic_rows(count: int) -> list[tuple[str, list[str]]]:
    """Texts with some of three words, each of which is a label; some texts have none."""
    generator = np.random.default_rng(0)
    found = []
    for _ in range(count):
        words = [word for word in TOPICS if generator.random() < 0.5]
        filler = list(generator.choice(["the", "a", "late", "new"], 3))
        text = " ".join(generator.permutation([*words, *filler]))
        found.append((text, [TOPICS[word] for word in words]))
    return found


def write_table(path: Path, header: Sequence[str], rows: Sequence[Sequence[str]]) -> Path:
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([header, *rows])
    return path


@pytest.mark.parametrize("form", ["pipes", "json", "columns"])
def test_sets_are_learned_in_every_form(tmp_path: Path, form: str) -> None:
    rows = topic_rows(200)
    options: dict[str, Any] = {}
    if form == "json":
        path = tmp_path / "topics.jsonl"
        path.write_text("".join(json.dumps({"text": t, "labels": own}) + "\n" for t, own in rows), encoding="utf-8")
    elif form == "pipes":
        path = write_table(tmp_path / "topics.csv", ["text", "label"], [(t, "|".join(own)) for t, own in rows])
    else:
        names = sorted(TOPICS.values())
        flags = [(text, *(str(int(name in own)) for name in names)) for text, own in rows]
        path = write_table(tmp_path / "topics.csv", ["text", *names], flags)
        options = {"task": "multilabel", "label_column": names}
    settings = plan(path, **options)
    assert settings.task.name == "multilabel"
    run = unspool.train(path, out=tmp_path / "run", epochs=10, test=0.2, quiet=True, **SMALL, **options)
    assert run.finished.test["micro-F1"] > 0.97
    assert run.finished.test["exact match"] > 0.9
    frequency = run.finished.baselines["frequency of each label"]
    assert frequency["micro-F1"] < 0.8
    _, task, learner = load_run(run.path)
    assert task.evaluate_files(learner, str(path))["micro-F1"] > 0.97
    (row,) = task.predict_files(learner, str(write_table(tmp_path / "new.csv", ["text"], [("a late film",)])))
    assert row["labels"] == "arts"
    assert row["p(arts)"] > 0.5 > row["p(sports)"]


def test_scores_are_those_of_scikit_learn() -> None:
    generator = np.random.default_rng(1)
    names = list("abcde")
    sets = [[{name for name in names if generator.random() < 0.4} for _ in range(50)] for _ in range(2)]
    found = label_set_scores(*sets)
    y_true, y_pred = map(MultiLabelBinarizer(classes=names).fit([]).transform, sets)
    assert found["micro-F1"] == pytest.approx(f1_score(y_true, y_pred, average="micro"))
    assert found["macro-F1"] == pytest.approx(f1_score(y_true, y_pred, average="macro"))
    assert found["exact match"] == pytest.approx((y_true == y_pred).all(1).mean())
    assert label_set_scores([{"a", "b"}, {"b"}], [{"a"}, {"b"}]) == pytest.approx(
        {"micro-F1": 0.8, "macro-F1": 5 / 6, "exact match": 0.5}
    )
    assert label_set_scores([set()], [set()]) == {"micro-F1": 0.0, "macro-F1": 0.0, "exact match": 1.0}


def test_the_loss_is_the_likelihood_of_each_label(tmp_path: Path) -> None:
    path = write_table(tmp_path / "t.csv", ["text", "label"], [(t, "|".join(own)) for t, own in topic_rows(40)])
    task = MultiLabelClassification.prepare(MultiLabelData(files=(str(path),), tokenizer="word"), 0)
    learner = make_learner(task, PooledSettings(hidden=4)).eval()
    batch = as_tensors(task.parts["training"].batch(np.arange(6)))
    scores = learner.score(batch).levels[-1]
    signs = 2 * batch.targets - 1
    assert torch.allclose(learner.summed_loss(scores, batch), -functional.logsigmoid(signs * scores).sum(), rtol=1e-6)


def test_labels_that_training_never_saw_are_missed(tmp_path: Path) -> None:
    train = write_table(tmp_path / "train.csv", ["text", "label"], [("a b", "x|y"), ("b", "y|z"), ("a", "x")] * 4)
    test = write_table(tmp_path / "test.csv", ["text", "label"], [("a b", "x|new|odd"), ("b", "y")])
    data = MultiLabelData(files=(str(train),), test=(str(test),), validation=0.3, label_separator="|")
    message = r"line 2: 1 of 2 examples have a label .*: 'new' \(1\), 'odd' \(1\)\. Each such label counts as missed"
    with pytest.warns(DataWarning, match=message):
        task = MultiLabelClassification.prepare(data, 0)
    assert task.labels == ["x", "y", "z"]
    found = task.metrics(task.parts["test"], np.arange(2), [np.array([0.9, 0.1, 0.1]), np.array([0.1, 0.9, 0.1])])
    scores = {"micro-F1": 2 / 3, "macro-F1": 1 / 2, "exact match": 1 / 2}  # of x, y, new and odd
    assert found == pytest.approx({**scores, "examples": 2, "unseen labels": 1})


def test_the_most_probable_labels(tmp_path: Path) -> None:
    train = write_table(tmp_path / "train.csv", ["text", "label"], [("a b", "x|y"), ("b", "y|z"), ("a", "x")] * 4)
    task = MultiLabelClassification.prepare(MultiLabelData(files=(str(train),), label_separator="|"), 0)
    part = task.parts["validation"]
    choose_top(task, 2)
    found = task.record(part, 0, np.array([0.2, 0.4, 0.9]))
    assert list(found.values())[1:] == ["z", 0.9, "y", 0.4]
    assert tuple(found) == task.prediction_columns == ("text", "label", "probability", "label 2", "probability 2")
    choose_top(task, 9)
    assert tuple(task.record(part, 0, np.array([0.2, 0.4, 0.9]))) == task.prediction_columns


@pytest.mark.parametrize(
    ("cell", "labels"),
    [
        ("a|b", ("a", "b")),
        ("", ()),
        (" a | a ", ("a",)),
        ('["a", "b c"]', ("a", "b c")),
        ("['a', 'b']", ("a", "b")),
        ("[a, b]", ("a", "b")),
        ("[]", ()),
    ],
)
def test_cells_with_sets(cell: str, labels: tuple[str, ...]) -> None:
    assert split_labels(cell, "|") == labels


def test_one_label_per_cell_is_no_set() -> None:
    assert not holds_sets(["Paris, France", "Rome, Italy", "Oslo, Norway"])
    assert not holds_sets(["a", "b", "a", ""])
    assert holds_sets(["a;b", "b;c", "a", "c"])
    assert guess_separator(["a;b", "b;c", "a", "c"]) == ";"
    assert guess_separator(["a, b|c", "c|a, b", "c"]) == "|"


def test_what_is_no_flag_is_refused(tmp_path: Path) -> None:
    path = write_table(tmp_path / "t.csv", ["text", "x", "y"], [("a", "1", "0"), ("b", "0", "maybe")] * 4)
    with pytest.raises(DataError, match=r"line 3: `y` is 'maybe'. Give 0 or 1"):
        MultiLabelClassification.prepare(MultiLabelData(files=(str(path),), label_column=("x", "y")), 0)
    empty = write_table(tmp_path / "e.csv", ["text", "label"], [("a", ""), ("b", "")] * 4)
    with pytest.raises(DataError, match="no training example has a label"):
        MultiLabelClassification.prepare(MultiLabelData(files=(str(empty),)), 0)
