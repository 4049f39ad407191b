"""Joint tagging: slots and intents from published folders, with their flaws; metrics by hand; predictions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.tasks.slot_folders import Line, travel_lines, write_parts, write_slots

import unspool
from unspool.cli.main import main
from unspool.errors import DataError, DataWarning
from unspool.models.catalogue import make_learner
from unspool.partitions.tables import choose_top
from unspool.runs.load import load_run
from unspool.runs.train import plan
from unspool.settings.data import TaggedData
from unspool.settings.model import JointSettings
from unspool.tasks.batch import JointPrediction, TagPrediction
from unspool.tasks.joint import JointTagging

SMALL: dict[str, Any] = {"hidden": 16, "char_hidden": 4, "lr": 0.02, "batch_size": 8, "dropout": 0.0}


def test_both_are_learned_and_the_guess_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = write_parts(tmp_path / "travel")
    settings = plan(folder)
    assert settings.task.name == "joint"
    assert "seq.in" in settings.guessed
    run = unspool.train(folder, out=tmp_path / "run", epochs=12, quiet=True, **SMALL)
    for found in (run.finished.validation, run.finished.test):
        assert found["exact match"] == 1.0
        assert found["label accuracy"] == 1.0
        assert found["span F1"] == 1.0
    _, task, learner = load_run(run.path)
    assert task.evaluate_files(learner, str(folder / "test"))["exact match"] == 1.0
    words = write_slots(tmp_path / "new", [("cancel a flight to lima at dawn", "O O O O O O O", "x")])
    capsys.readouterr()
    with pytest.raises(SystemExit, match="0"):
        main(["predict", str(run.path), str(words)])
    row = capsys.readouterr().out
    assert "cancel_flight" in row
    assert "B-city" in row


def test_metrics_by_hand(tmp_path: Path) -> None:
    lines: list[Line] = [("a b", "O B-x", "p"), ("b a", "B-x O", "q"), ("a a", "O O", "p")]
    folder = write_slots(tmp_path / "data", lines)
    data = TaggedData(files=(str(folder),), validation=(str(folder),))
    task = JointTagging.prepare(data, 0)
    part = task.parts["validation"]
    number = {tag: place for place, tag in enumerate(task.tags)}
    predicted = [("O B-x", [0.9, 0.1]), ("B-x O", [0.6, 0.4]), ("B-x O", [0.8, 0.2])]
    predictions = [
        JointPrediction(TagPrediction(np.array([number[tag] for tag in tags.split()]), np.ones(2)), np.array(labels))
        for tags, labels in predicted
    ]
    found = task.metrics(part, np.arange(3), predictions)
    assert found == pytest.approx(
        {
            **{"exact match": 1 / 3, "label accuracy": 2 / 3, "accuracy": 5 / 6},
            **{"span F1": 4 / 5, "precision": 2 / 3, "recall": 1.0},
        }
    )
    assert task.show(part, 0, predictions[0]).endswith("· p")
    assert task.show(part, 1, predictions[1]).startswith("✗")
    assert task.show(part, 1, predictions[1]).endswith("· p, not q")
    record = task.record(part, 0, predictions[0])
    assert tuple(record) == task.prediction_columns
    assert (record["label"], record["p(label)"]) == ("p", 0.9)
    choose_top(task, 2)
    ranked = task.record(part, 0, predictions[0])
    assert tuple(ranked) == task.prediction_columns
    assert list(ranked.values())[3:] == ["p", 0.9, "q", pytest.approx(0.1)]


def test_a_label_of_the_test_data_alone_counts_as_wrong(tmp_path: Path) -> None:
    folder = write_parts(tmp_path / "travel")
    lines = travel_lines(4)
    write_slots(folder / "test", [*lines, (lines[0][0], lines[0][1], "new_intent")])
    with pytest.warns(DataWarning, match="new_intent"):
        run = unspool.train(folder, out=tmp_path / "run", epochs=12, quiet=True, **SMALL)
    assert run.finished.test["label accuracy"] == pytest.approx(4 / 5)
    assert run.finished.test["exact match"] == pytest.approx(4 / 5)
    assert (run.finished.test["sentences"], run.finished.test["unseen labels"]) == (5, 1)


def test_what_is_no_joint_data_is_refused(tmp_path: Path) -> None:
    bare = write_slots(tmp_path / "bare", travel_lines(8), labels=False)
    with pytest.raises(DataError, match="no label"):
        JointTagging.prepare(TaggedData(files=(str(bare),)), 0)
    one = write_slots(tmp_path / "one", [(words, tags, "same") for words, tags, _ in travel_lines(8)])
    with pytest.raises(DataError, match="nothing to tell apart"):
        JointTagging.prepare(TaggedData(files=(str(one),)), 0)
    short = write_slots(tmp_path / "short", travel_lines(8))
    (short / "label").write_text("book_flight\n", encoding="utf-8")
    with pytest.raises(DataError, match="Give files that match"):
        JointTagging.prepare(TaggedData(files=(str(short),)), 0)


def test_an_empty_line_has_an_empty_prediction_and_a_note(tmp_path: Path) -> None:
    task = JointTagging.prepare(TaggedData(files=(str(write_slots(tmp_path / "data", travel_lines(8))),)), 0)
    learner = make_learner(task, JointSettings(hidden=4, char_hidden=2, engine="torch")).eval()
    lines = [("book a flight", "O O O", "x"), ("", "", ""), ("to rome", "O O", "x")]
    found = list(task.predict_files(learner, str(write_slots(tmp_path / "new", lines, labels=False))))
    assert [row["words"] for row in found] == [["book", "a", "flight"], [], ["to", "rome"]]
    assert [row["label"] is None for row in found] == [False, True, False]
    assert found[1]["note"].startswith(f"{tmp_path / 'new' / 'seq.in'}, line 2: the sequence is empty.")


@pytest.mark.parametrize("labels", [None, [], "ab", [1], {"a": 1}])
def test_a_run_without_its_labels_is_refused(tmp_path: Path, labels: object) -> None:
    folder = write_slots(tmp_path / "data", travel_lines(8))
    data = TaggedData(files=(str(folder),))
    document = JointTagging.prepare(data, 0).dump()
    assert JointTagging.restore(json.loads(json.dumps(document)), data).labels == ["book_flight", "cancel_flight"]
    with pytest.raises(DataError, match="labels"):
        JointTagging.restore({**document, "labels": labels}, data)
