"""Predictions for every example: what cannot be read is noted, in whatever company, and the others are as alone."""

from __future__ import annotations

import numpy as np
import pytest
from tests.tasks.small_tags import small_learner, small_task

from unspool.data.labelled import Raw
from unspool.errors import DataError
from unspool.models.catalogue import make_learner
from unspool.settings.data import LabelledData
from unspool.settings.model import PooledSettings
from unspool.tasks.classify import Classification


def of_numbers() -> Classification:
    series = [np.full((2, 1), float(number)) for number in range(4)]
    raw = Raw(None, series, [*"abcd"], str, [("x",), ("y",), ("x",), ("y",)])
    return Classification.of({"training": raw, "validation": raw}, LabelledData(files=("none",)))


def test_a_sentence_that_is_too_long_or_empty_has_a_note() -> None:
    task = small_task(max_length=5)
    learner = small_learner(task)
    found = list(task.predict_texts(learner, ["fly to rome", "", "to " * 6, "from york"]))
    assert [row.get("note") for row in found] == [
        None,
        "sentence 1, word 0: the sequence is empty. Leave it out, or give it at least one step.",
        "sentence 2, word 0: the sequence has 6 steps, more than `max_length` (=5). Cut it into parts, or, if there is "
        "memory for it, train with `max_length=6`.",
        None,
    ]
    assert found[1] == {"words": [], "tags": None, "probabilities": None, "note": found[1]["note"]}
    assert [found[0], found[3]] == list(task.predict_texts(learner, ["fly to rome", "from york"]))


def test_nothing_that_can_be_read_is_no_error() -> None:
    task = small_task()
    found = list(task.predict_texts(small_learner(task), ["", " "]))
    assert [row["tags"] for row in found] == [None, None]
    assert list(task.predict_texts(small_learner(task), [])) == []


def test_numbers_that_are_missing_are_noted_and_texts_refused() -> None:
    task = of_numbers()
    learner = make_learner(task, PooledSettings(hidden=2, engine="torch")).eval()
    series = [np.ones((3, 1)), np.array([[1.0], [np.nan]]), np.zeros((1, 1))]
    given = Raw(None, series, [*"abc"], "sequence {}".format, None)
    found = [row.predicted for row in task.predict_given(learner, given)]
    assert [row["id"] for row in found] == [*"abc"]
    assert found[1]["label"] is None
    assert found[1]["note"] == "sequence 1: step 1, feature 0 is nan. Fill it in."
    assert {found[0]["label"], found[2]["label"]} <= {"x", "y"}
    with pytest.raises(DataError, match="the model reads sequences of numbers, and these are texts"):
        task.predict_texts(learner, ["one"])
