"""What requests give is refused before it is read where that is certain, and read beside the loop where it is much."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient
from tests.server.serving import client_of, opened, refused

from unspool.data.vocabulary import BytePairs, Bytes, Characters, Words
from unspool.runtime.run_player import RunPlayer
from unspool.runtime.session import Session
from unspool.server import predictions, waiting
from unspool.server.strict_json import dump, dump_in_parts

TEXT = "The cat sat on the mat, 猫坐在垫子上.\n"


@pytest.fixture(scope="module")
def client(book: Path, accumulator: Path) -> Iterator[TestClient]:
    with client_of(book, accumulator) as found:
        yield found


@pytest.mark.parametrize("kind", [Characters, Bytes, Words, BytePairs])
def test_a_text_has_no_fewer_tokens_than_are_said(kind: Any) -> None:
    vocabulary = kind.fit([TEXT * 30], 300 if kind is BytePairs else None)
    for text in ("", "a", TEXT, "x" * 2000, TEXT * 40, "猫" * 300, " \n" * 50):
        assert vocabulary.fewest(text) <= len(vocabulary.ids(text))
    assert (vocabulary.fewest("the " * 5000) > 100) == (kind is not Words)


def test_a_text_that_is_too_long_is_refused_unread(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RunPlayer, "encode", None)  # who calls it fails
    session, text = opened(client, model="run"), "a" * 900_000
    error = refused(client.post(f"/v1/sessions/{session}/feed", json={"input": text}), 422, "too_many_tokens")
    assert "900,000" in error["message"]
    for prompt in (text, [text[:4000]] * 2):
        body = {"model": "run", "prompt": prompt}
        error = refused(client.post("/v1/completions", json=body), 422, "too_many_tokens")
        assert error["param"] == "max_tokens"


def test_thousands_of_names_are_refused_with_one_of_them(client: TestClient) -> None:
    names = {f"name{number}": 1 for number in range(60_000)}
    error = refused(client.post("/v1/completions", json=names), 422, "unknown_name")
    assert error["param"] == "name0"
    assert len(error["message"]) < 400


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"prompt": [-1]}, "`prompt[0]` is below 0."),
        ({"prompt": [1] * 300_000}, "`prompt` has more than 4,096 item(s)."),
        ({"prompt": [[1], [2, -3]]}, "`prompt[1][1]` is below 0."),
        ({"prompt": [[1] * 5000]}, "`prompt[0]` has more than 4,096 item(s)."),
        ({"prompt": ["a"] * 129}, "`prompt` has more than 128 item(s)."),
        ({"prompt": [1, "a"]}, "`prompt[1]` is not an integer."),
        ({"prompt": [0, 10**6]}, "`prompt[1]` (=1000000) is not an id of the vocabulary"),
        ({"prompt": [[0], [0, 10**6]]}, "`prompt[1][1]` (=1000000) is not an id of the vocabulary"),
        ({"prompt": "a", "seed": 1e50}, "`seed` is not an integer."),
        ({"prompt": "a", "seed": 10**50}, "has more than 19 digits."),
        ({"prompt": "a", "seed": 10**17}, "`seed` is above 9,007,199,254,740,992."),
    ],
    ids=lambda value: str(value)[:30],
)
def test_messages_are_about_what_was_meant(client: TestClient, body: dict[str, Any], said: str) -> None:
    error = refused(client.post("/v1/completions", json={"model": "run", **body}), 422)
    assert said in error["message"]
    assert len(error["message"]) < 160


def test_a_byte_order_mark_and_a_wrong_id_are_named(client: TestClient) -> None:
    answer = client.post("/v1/sessions", content=b"\xef\xbb\xbf{}", headers={"content-type": "application/json"})
    assert "byte order mark" in refused(answer, 400, "invalid_json")["message"]
    session = opened(client, model="run")
    error = refused(client.post(f"/v1/sessions/{session}/feed", json={"input": [1, -1]}), 422)
    assert error["message"] == "`ids[1]` (=-1) is negative. Give a whole number from 0 on."


def test_what_is_large_is_read_and_told_beside_the_loop(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[tuple[str, int]] = []
    encode, prepare = RunPlayer.encode, Session.prepare

    def noting(name: str, function: Any) -> Any:
        def call(*arguments: Any) -> Any:
            threads.append((name, threading.get_ident()))
            return function(*arguments)

        return call

    monkeypatch.setattr(RunPlayer, "encode", noting("feed", encode))
    monkeypatch.setattr(Session, "prepare", noting("step", prepare))
    monkeypatch.setattr("unspool.server.answers.dump_in_parts", noting("dump", dump_in_parts))
    loop = client.portal.call(threading.get_ident)  # type: ignore[union-attr]
    session = opened(client, model="sum")

    def ask(what: str, name: str, steps: int) -> dict[str, set[bool]]:
        """Whether each part of the work was done in the loop's thread."""
        threads.clear()
        assert client.post(f"/v1/sessions/{session}/{what}", json={name: [[0.5]] * steps}).status_code == 200
        return {key: {thread == loop for one, thread in threads if one == key} for key, _ in threads}

    assert ask("feed", "input", 5) == {"feed": {True}, "dump": {True}}
    assert ask("step", "inputs", 5) == {"step": {True}, "dump": {True}}
    monkeypatch.setattr(waiting, "LARGE", 3000)
    assert ask("feed", "input", 4000) == {"feed": {False}, "dump": {True}}
    assert ask("step", "inputs", 4000) == {"step": {False}, "dump": {False}}


def test_json_in_parts_is_json() -> None:
    value: dict[str, Any] = {"a": [1, [2.5, None], {"b": "ü"}], "c": {}, "d": [], "e": "[", "f": None}
    assert dump_in_parts(value) == dump(value)
    with pytest.raises(ValueError, match="JSON"):
        dump_in_parts({"a": [float("nan")]})


def same(found: Any, expected: Any) -> None:
    """Numbers may differ in the last digits of float32: another batch may be summed in another order."""
    assert type(found) is type(expected)
    if isinstance(found, float):
        assert found == pytest.approx(expected, rel=1e-5, abs=1e-6)
    elif isinstance(found, list | dict):
        assert list(found) == list(expected) if isinstance(found, dict) else len(found) == len(expected)
        for one in found if isinstance(found, dict) else range(len(found)):
            same(found[one], expected[one])
    else:
        assert found == expected


@pytest.mark.parametrize("task", ["classify", "regress", "tag", "seq2seq", "multilabel", "joint", "forecast"])
def test_predictions_in_pieces_are_those_for_all(
    predicting: dict[str, Path], monkeypatch: pytest.MonkeyPatch, task: str
) -> None:
    examples: Any = ["red hot", "cold", "red red hot cold", "hot"] * 3
    if task in ("tag", "joint"):
        examples = [one.split() for one in examples]
    with client_of(predicting[task]) as client:
        if task == "forecast":
            names = list(client.service.models[task].player.task.terms.scales)  # type: ignore[attr-defined]
            examples = {name: [float(n % 4) for n in range(24)] for name in names}
        pieces = list(predictions.divide(examples, task == "forecast"))
        assert pieces == [examples]
        whole = client.post("/v1/predict", json={"model": task, "examples": examples})
        assert whole.status_code == 200, whole.text
        monkeypatch.setattr(predictions, "PIECE", 5)
        pieces = list(predictions.divide(examples, task == "forecast"))
        assert len(pieces) == (1 if task == "forecast" else len(examples))
        found = client.post("/v1/predict", json={"model": task, "examples": examples}).json()
        same(found["predictions"], whole.json()["predictions"])


def test_examples_are_divided_by_their_size() -> None:
    texts = ["a" * 1000, "b" * 1000, "c" * 1000, "d" * 5000, "e"]
    assert list(predictions.divide(texts, False)) == [texts[:2], texts[2:3], texts[3:4], texts[4:]]
    series = {"a": [1.0] * 2000, "b": [2.0] * 100, "c": [3.0]}
    assert list(predictions.divide(series, True)) == [{"a": [1.0] * 2000}, {"b": [2.0] * 100, "c": [3.0]}]
    for whole in ([1.0] * 9000, [[1.0], [2.0]]):
        assert list(predictions.divide(whole, True)) == [whole]
    assert list(predictions.divide([], False)) == [[]]


def test_a_wrong_example_is_named_by_its_place_among_all(
    predicting: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    examples = [["red"], ["hot"], ["cold"], [1]]
    with client_of(predicting["tag"]) as client:
        body = {"model": "tag", "examples": examples}
        expected = refused(client.post("/v1/predict", json=body), 422)
        monkeypatch.setattr(predictions, "PIECE", 1)
        assert refused(client.post("/v1/predict", json=body), 422) == expected
