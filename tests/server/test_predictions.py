"""Predictions of every task: those of the player."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient
from tests.server.serving import client_of, refused

import unspool
from unspool.server import schemas
from unspool.server.schema import check

EXAMPLES: dict[str, Any] = {
    "classify": ["red hot", "cold"],
    "regress": ["red hot", "cold"],
    "multilabel": ["red hot"],
    "tag": [["red", "hot"], ["cold"]],
    "joint": [["fly", "to", "boston"]],
    "seq2seq": ["red hot"],
    "forecast": [float(n % 4) for n in range(24)],
}


@pytest.fixture(scope="module")
def client(book: Path, predicting: dict[str, Path]) -> Iterator[TestClient]:
    with client_of(book, *predicting.values()) as found:
        yield found


@pytest.mark.parametrize("task", EXAMPLES)
def test_predictions_are_those_of_the_player(client: TestClient, predicting: dict[str, Path], task: str) -> None:
    answer = client.post("/v1/predict", json={"model": task, "examples": EXAMPLES[task]})
    assert answer.status_code == 200, answer.text
    check(schemas.PREDICTIONS, answer.json())
    expected = unspool.load(predicting[task]).predict(EXAMPLES[task])
    found = answer.json()["predictions"]
    assert found == json.loads(json.dumps(expected, default=lambda value: value.tolist()))
    assert found


def test_one_text_is_one_example(client: TestClient) -> None:
    one, many = (client.post("/v1/predict", json={"model": "classify", "examples": x}).json() for x in ("hot", ["hot"]))
    assert one == many
    assert len(one["predictions"]) == 1


def test_models_are_listed_under_the_names_of_their_folders(client: TestClient) -> None:
    listed = client.get("/v1/models").json()
    check(schemas.MODELS, listed)
    assert [one["id"] for one in listed["data"]] == ["run", *EXAMPLES_ORDER]
    assert {one["id"]: one["generates"] for one in listed["data"]}["run"] is True
    assert client.get("/v1/models/tag").json()["task"] == "tag"
    refused(client.get("/v1/models/none"), 404, "model_not_found")


EXAMPLES_ORDER = ("classify", "regress", "tag", "seq2seq", "forecast", "multilabel", "joint")


@pytest.mark.parametrize("task", ["run", *EXAMPLES])
@pytest.mark.parametrize(
    "examples",
    [
        [1, 2],
        [[1.5, 2.5]],
        [["a", 1]],
        [[[1.0], [2.0, 3.0]]],
        {"a": [1, 2]},
        {},
        "",
        [""],
        [[]],
        ["a" * 5000],
        [[[]]],
        3,
    ],
    ids=lambda value: str(value)[:20],
)
def test_examples_of_another_kind_are_refused_or_predicted(client: TestClient, task: str, examples: Any) -> None:
    answer = client.post("/v1/predict", json={"model": task, "examples": examples})
    if answer.status_code != 200:
        refused(answer, 422)
        assert str(Path.cwd()) not in answer.text
    else:
        assert task != "run"


def test_sessions_of_models_that_need_whole_sequences_are_refused(client: TestClient) -> None:
    for task in ("tag", "seq2seq", "forecast"):
        assert "whole" in refused(client.post("/v1/sessions", json={"model": task}), 422)["message"]
