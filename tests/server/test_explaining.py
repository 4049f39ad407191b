"""Traces, importance, curves and reports: against the player step by step, and the run's own files."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from starlette.testclient import TestClient
from tests.server.serving import LOCAL, client_of, opened, refused, talking

import unspool
from unspool.runtime.explaining import TOGETHER
from unspool.runtime.pooled import PooledPlayer
from unspool.runtime.stack import StackPlayer
from unspool.server import run_calls, schemas
from unspool.server.jobs import Course
from unspool.server.run_files import read_curves
from unspool.server.schema import check
from unspool.server.traces import MOST_STEPS, SHOWN

TEXT = "the lazy dog"


@pytest.fixture(scope="module")
def client(book: Path, predicting: dict[str, Path]) -> Iterator[TestClient]:
    with client_of(book, *predicting.values()) as found:
        yield found


def softmax(logits: Any) -> Any:
    shifted = np.exp(np.asarray(logits, np.float64) - np.max(logits))
    return shifted / shifted.sum()


def test_a_traced_feed_tells_probabilities_and_states_of_every_step(client: TestClient, book: Path) -> None:
    player = unspool.load(book)
    session, alone = opened(client, model="run"), player.start()
    told = client.post(f"/v1/sessions/{session}/feed", json={"input": TEXT, "trace": True, "top": 3}).json()
    check(schemas.OUTPUT, told)
    expected: Any = None
    for step, token in zip(told["trace"], np.asarray(player.encode(TEXT))[:, 0].tolist(), strict=True):
        assert step["token"] == token
        assert step["probability"] == (None if expected is None else pytest.approx(expected[token]))
        expected = softmax(alone.step(token))
        order = np.argsort(-expected, kind="stable")[:3]
        assert [one["token"] for one in step["next"]] == order.tolist()
        assert [one["probability"] for one in step["next"]] == pytest.approx(expected[order].tolist())
        hidden = alone.fork().lend()[0][0][:SHOWN]
        assert step["values"][0] == pytest.approx(hidden.tolist(), abs=1e-4)
    assert "".join(step["text"] for step in told["trace"]) == TEXT
    assert softmax(told["output"]).tolist() == pytest.approx(expected.tolist())
    state = client.get(f"/v1/sessions/{session}/state").content
    plain = player.start()
    plain.feed(TEXT)
    assert state == plain.save()


def test_a_trace_runs_once_and_holds_the_session_meanwhile(book: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    player = unspool.load(book)
    session, alone, inputs, ran = player.start(), player.start(), player.encode(TEXT), list[bool]()
    session.feed("a ")
    alone.feed("a ")
    run = StackPlayer.run
    monkeypatch.setattr(StackPlayer, "run", lambda *given: (ran.append(session._lock.locked()), run(*given))[1])
    session.trace(inputs)
    assert ran == [True]
    alone.read(inputs)
    assert session.save() == alone.save()


def test_what_was_read_before_gives_the_first_token_its_probability(client: TestClient) -> None:
    session = opened(client, model="run")
    whole = client.post(f"/v1/sessions/{session}/feed", json={"input": TEXT, "trace": True}).json()["trace"]
    other = opened(client, model="run")
    client.post(f"/v1/sessions/{other}/feed", json={"input": TEXT[:5]})
    rest = client.post(f"/v1/sessions/{other}/feed", json={"input": TEXT[5:], "trace": True}).json()["trace"]
    assert rest == whole[5:]


@pytest.mark.parametrize("stream", [False, True])
def test_a_traced_text_is_the_text_and_tells_of_each_token(client: TestClient, stream: bool) -> None:
    asked = {"max_tokens": 6, "seed": 4}
    ids = [opened(client, model="run") for _ in range(2)]
    for session in ids:
        client.post(f"/v1/sessions/{session}/feed", json={"input": "the "})
    plain = client.post(f"/v1/sessions/{ids[0]}/generate", json=asked).json()
    answer = client.post(f"/v1/sessions/{ids[1]}/generate", json={**asked, "trace": True, "stream": stream})
    if stream:
        events = [json.loads(line[6:]) for line in answer.text.split("\n\n") if line.startswith("data: {")]
        traced = [event["trace"] for event in events if "trace" in event]
    else:
        check(schemas.WRITTEN, answer.json())
        traced = answer.json()["trace"]
    assert [step["token"] for step in traced] == plain["tokens"]
    again = opened(client, model="run")
    client.post(f"/v1/sessions/{again}/feed", json={"input": "the "})
    read = client.post(f"/v1/sessions/{again}/feed", json={"input": plain["tokens"], "trace": True}).json()["trace"]
    assert [step["probability"] for step in traced] == pytest.approx([step["probability"] for step in read])
    assert [step["values"] for step in traced] == [step["values"] for step in read]
    states = [client.get(f"/v1/sessions/{session}/state").content for session in ids]
    assert states[0] == states[1]


def test_a_socket_tells_of_each_token_too(client: TestClient) -> None:
    session, other = (opened(client, model="run") for _ in range(2))
    asked = {"input": "the ", "trace": True}
    with talking(client, session) as socket:
        socket.send_json({"do": "feed", "id": 1, **asked})
        assert socket.receive_json()["trace"] == client.post(f"/v1/sessions/{other}/feed", json=asked).json()["trace"]
        socket.send_json({"do": "generate", "id": 2, "max_tokens": 3, "seed": 0, "trace": True})
        traced = [socket.receive_json()["trace"] for _ in range(3)]
    whole = client.post(f"/v1/sessions/{other}/generate", json={"max_tokens": 3, "seed": 0, "trace": True}).json()
    assert traced == whole["trace"]


def test_more_steps_than_are_traced_are_refused(client: TestClient) -> None:
    session = opened(client, model="run")
    path = f"/v1/sessions/{session}"
    refused(client.post(f"{path}/feed", json={"input": "a" * (MOST_STEPS + 1), "trace": True}), 422, "too_many_tokens")
    client.post(f"{path}/feed", json={"input": "a"})
    refused(client.post(f"{path}/generate", json={"max_tokens": MOST_STEPS + 1, "trace": True}), 422, "too_many_tokens")


@pytest.mark.parametrize("task", ["classify", "regress", "multilabel"])
def test_outputs_after_each_token_are_predictions_for_the_text_so_far(
    client: TestClient, predicting: dict[str, Path], task: str
) -> None:
    player, words = unspool.load(predicting[task]), ["red", "hot", "green", "cold"]
    told = client.post("/v1/trace", json={"model": task, "input": " ".join(words)}).json()
    check(schemas.EXPLAINED, told)
    assert [step["text"] for step in told["steps"]] == words
    for count, step in enumerate(told["steps"], 1):
        row = player.predict([" ".join(words[:count])])[0]
        expected = [value for name, value in row.items() if name.startswith("p(") or name == "target"]
        assert step["output"] == pytest.approx(expected, abs=1e-6)
    about = client.get(f"/v1/models/{task}/about").json()
    assert [len(one) for one in told["steps"][0]["values"]] == [channel["shown"] for channel in about["channels"]]


def test_importance_is_what_leaving_out_a_token_changes(client: TestClient, book: Path) -> None:
    player = unspool.load(book)
    told = client.post("/v1/importance", json={"model": "run", "input": TEXT}).json()
    check(schemas.IMPORTANCE, told)
    assert (told["measure"], told["output"]) == ("kl", None)

    def expect(text: str) -> Any:
        return softmax(player.start().feed(text))

    whole = expect(TEXT)
    for place, value in enumerate(told["importance"]):
        without = expect(TEXT[:place] + TEXT[place + 1 :])
        assert value == pytest.approx(float((whole * np.log(whole / without)).sum()), abs=1e-5)
    assert client.post("/v1/importance", json={"model": "run", "input": "t"}).json()["importance"] == [None]
    long = client.post("/v1/importance", json={"model": "run", "input": "a" * 200}).json()["importance"]
    assert [value is None for value in long] == [True] * 72 + [False] * 128


def test_importance_of_words_is_the_change_of_the_predicted_label(
    client: TestClient, predicting: dict[str, Path]
) -> None:
    player, words = unspool.load(predicting["classify"]), ["red", "hot", "cold"]
    told = client.post("/v1/importance", json={"model": "classify", "input": " ".join(words)}).json()
    label = client.get("/v1/models/classify/about").json()["outputs"][told["output"]]
    whole = player.predict([" ".join(words)])[0]
    assert whole["label"] == label
    for place, value in enumerate(told["importance"]):
        rest = player.predict([" ".join(words[:place] + words[place + 1 :])])[0]
        assert value == pytest.approx(whole[f"p({label})"] - rest[f"p({label})"], abs=1e-6)


@pytest.mark.parametrize("route", ["/v1/trace", "/v1/importance"])
@pytest.mark.parametrize("task", ["run", "classify", "tag", "joint", "seq2seq", "forecast"])
@pytest.mark.parametrize("given", ["", "red hot", ["red", "hot"], [1, 2], [[1.0], [2.0]], ["a", 1], "a " * 400])
def test_any_input_is_explained_or_refused(client: TestClient, route: str, task: str, given: Any) -> None:
    answer = client.post(route, json={"model": task, "input": given})
    if answer.status_code != 200:
        refused(answer, 422)


@pytest.mark.parametrize("route", ["/v1/trace", "/v1/importance"])
def test_explanations_come_in_pieces(client: TestClient, route: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each turn of the worker is a few rows of the explanation, so that sessions step in between."""
    turns: list[Course] = []
    advance = Course.advance
    monkeypatch.setattr(Course, "advance", lambda job: (turns.append(job), advance(job))[1])
    answer = client.post(route, json={"model": "classify", "input": "red " * 100})
    assert answer.status_code == 200
    assert len(turns) > 100 // TOGETHER


def test_a_mistake_of_the_server_is_not_told_as_one_of_the_input(
    client: TestClient, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(PooledPlayer, "score", lambda *_: {}["none"])
    refused(client.post("/v1/importance", json={"model": "classify", "input": "red hot"}), 500, "internal_error")
    assert "KeyError" in caplog.text


def test_what_is_known_about_models(client: TestClient) -> None:
    names = [one["id"] for one in client.get("/v1/models").json()["data"]]
    found = {name: client.get(f"/v1/models/{name}/about").json() for name in names}
    for about in found.values():
        check(schemas.ABOUT, about)
        assert about["parameters"] > 0
    reads = {"run": "text", "classify": "text", "tag": "words", "seq2seq": "text", "forecast": "series"}
    assert {name: found[name]["reads"] for name in reads} == reads
    assert found["forecast"]["horizon"] == 3
    assert {one["name"] for one in found["run"]["channels"] if one["role"] == "gate"} == {"i", "f", "o"}
    refused(client.get("/v1/models/none/about"), 404, "model_not_found")


def test_rounded_models_are_traced_too(book: Path) -> None:
    player = unspool.load(book, int8=True)
    with client_of(book, int8=True) as client:
        session, alone = opened(client), player.start()
        told = client.post(f"/v1/sessions/{session}/feed", json={"input": TEXT, "trace": True}).json()["trace"]
        alone.feed(TEXT)
        assert told[-1]["values"][0] == pytest.approx(alone.lend()[0][0][:SHOWN].tolist(), abs=1e-3)
        assert None in client.post("/v1/importance", json={"input": "t"}).json()["importance"]
        parameters = client.get("/v1/models/run/about").json()["parameters"]
    with client_of(book) as client:
        assert client.get("/v1/models/run/about").json()["parameters"] == parameters


def test_curves_are_those_of_the_log(client: TestClient, book: Path) -> None:
    told = client.get("/v1/models/run/curves").json()
    check(schemas.CURVES, told)
    events = [json.loads(line) for line in (book / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    expected = {one["step"]: one["validation"]["loss"] for one in events if one["event"] == "evaluated"}
    (curve,) = [one for one in told["curves"] if one["name"] == "validation loss"]
    assert dict(zip(curve["steps"], curve["values"], strict=True)) == expected
    assert told["best_step"] == events[-1]["best_step"]


def test_a_log_with_absurd_numbers_has_the_curves_of_the_others(tmp_path: Path) -> None:
    events = [{"event": "stepped", "step": step, "loss": 10**400 if step == 2 else 1.5} for step in (1, 2, 3)]
    lines = [json.dumps(one) for one in events]
    (tmp_path / "metrics.jsonl").write_text("\n".join([*lines, "[1]", '{"event": "st']), encoding="utf-8")
    (curve,) = read_curves(tmp_path)["curves"]
    assert curve == {"name": "training loss", "steps": [1, 3], "values": [1.5, 1.5]}


REPORT = "<!doctype html><title>report</title><script>1</script>"


def test_reports_are_served_in_a_sandbox_and_nothing_else_is(book: Path, tmp_path: Path) -> None:
    run = shutil.copytree(book, tmp_path / "a book", ignore=shutil.ignore_patterns("*.html"))
    with client_of(run) as client:
        refused(client.get("/v1/models/a book/pages/xray"), 404, "page_not_found")
        refused(client.post("/v1/models/a book/pages/xray"), 404, "page_not_found")
        (run / "xray.html").write_text(REPORT, encoding="utf-8")
        answer = client.get("/v1/models/a book/pages/xray")
        assert answer.text == REPORT
        assert answer.headers["content-security-policy"].startswith("sandbox allow-scripts")
        assert "allow-same-origin" not in answer.headers["content-security-policy"]
        for page in ("config.toml", "%2e%2e%2fsecret", "xray.html", "metrics.jsonl"):
            refused(client.get(f"/v1/models/a book/pages/{page}"), 404)
        (tmp_path / "secret").write_text("secret", encoding="utf-8")
        os.remove(run / "xray.html")
        os.symlink(tmp_path / "secret", run / "xray.html")
        refused(client.get("/v1/models/a book/pages/xray"), 404, "page_not_found")
        assert client.get("/v1/models/a book/about").json()["pages"] == []


def test_links_to_reports_need_no_token_and_expire(book: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = shutil.copytree(book, tmp_path / "a book")
    (run / "xray.html").write_text(REPORT, encoding="utf-8")
    with client_of(run, token=("a-long-token",)) as client:
        refused(client.get("/v1/models/a book/pages/xray"), 401)
        headers = {"authorization": "Bearer a-long-token"}
        url = client.post("/v1/models/a book/pages/xray", headers=headers).json()["url"]
        assert client.get(LOCAL + url).text == REPORT
        refused(client.get(LOCAL + url[:-1] + ("0" if url[-1] != "0" else "1")), 404, "link_expired")
        refused(client.get(LOCAL + url.replace("/xray/", "/timeline/")), 404, "link_expired")
        refused(client.get("/v1/pages/a book/xray/٣.x"), 404, "link_expired")
        later = time.time() + run_calls.LINK_SECONDS + 1
        monkeypatch.setattr(time, "time", lambda: later)
        refused(client.get(LOCAL + url), 404, "link_expired")
