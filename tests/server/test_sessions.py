"""Sessions over HTTP and WebSocket: the bits of the player, and nobody else's state."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from starlette.testclient import TestClient
from tests.server.serving import client_of, opened, refused, talking
from tests.server.test_completions import events

import unspool
from unspool.runtime.run_player import RunPlayer
from unspool.runtime.session import Session
from unspool.server import schemas, session_calls
from unspool.server.schema import check

BYTES = {"content-type": "application/octet-stream"}


@pytest.fixture(scope="module")
def client(book: Path, accumulator: Path) -> Iterator[TestClient]:
    with client_of(book, accumulator) as found:
        yield found


@pytest.fixture(scope="module")
def player(book: Path) -> RunPlayer:
    return unspool.load(book)


def call(client: TestClient, session: str, what: str, **body: Any) -> Any:
    answer = client.post(f"/v1/sessions/{session}/{what}", json=body)
    assert answer.status_code in (200, 201), answer.text
    return answer.json()


def state(client: TestClient, session: str) -> bytes:
    answer = client.get(f"/v1/sessions/{session}/state")
    assert answer.headers["content-type"] == BYTES["content-type"]
    return answer.content


def test_a_session_has_the_bits_of_the_player(client: TestClient, player: RunPlayer) -> None:
    own, session = player.start(), opened(client, model="run")
    fed = call(client, session, "feed", input="the quick")
    check(schemas.OUTPUT, fed)
    assert fed == {"position": 9, "output": np.asarray(own.feed("the quick")).tolist()}
    stepped = call(client, session, "step", inputs=[3, 1, 4])
    check(schemas.OUTPUTS, stepped)
    assert stepped == {"position": 12, "outputs": [own.step(x).tolist() for x in (3, 1, 4)]}
    assert call(client, session, "step", inputs=[1, 5], outputs="last")["outputs"] == [
        [own.step(x) for x in (1, 5)][-1].tolist()
    ]
    assert call(client, session, "step", inputs=[9], outputs="none")["outputs"] == []
    own.step(9)
    written = call(client, session, "generate", max_tokens=12, seed=4, temperature=0.8)
    check(schemas.WRITTEN, written)
    assert written["text"] == "".join(own.generate(12, seed=4, temperature=0.8))
    assert (written["position"], len(written["tokens"]), written["finish_reason"]) == (27, 12, "length")
    streamed = client.post(f"/v1/sessions/{session}/generate", json={"max_tokens": 9, "seed": 1, "stream": True})
    *tokens, last = events(streamed.text)
    assert "".join(one["text"] for one in tokens) == "".join(own.generate(9, seed=1))
    assert last == {"finish_reason": "length", "position": 36}
    assert state(client, session) == own.save()
    assert call(client, session, "feed", input="") == {"position": 36, "output": None}
    assert client.get(f"/v1/sessions/{session}").json()["position"] == 36


def test_a_fork_goes_on_by_itself_and_a_state_is_restored(client: TestClient) -> None:
    session = opened(client, model="run")
    call(client, session, "feed", input="the ")
    saved = state(client, session)
    fork = client.post(f"/v1/sessions/{session}/fork").json()["id"]
    call(client, fork, "feed", input="dog")
    assert state(client, session) == saved != state(client, fork)
    back = client.put(f"/v1/sessions/{fork}/state", content=saved, headers=BYTES)
    assert back.json()["position"] == 4
    assert state(client, fork) == saved
    damaged = bytearray(saved)
    damaged[60] ^= 1
    refused(client.put(f"/v1/sessions/{fork}/state", content=bytes(damaged), headers=BYTES), 422)
    refused(client.put(f"/v1/sessions/{fork}/state", content=saved), 415)
    assert state(client, fork) == saved
    other = opened(client, model="sum")
    assert (
        "another model"
        in refused(client.put(f"/v1/sessions/{other}/state", content=saved, headers=BYTES), 422)["message"]
    )


def test_a_deleted_session_is_gone(client: TestClient) -> None:
    session = opened(client, model="run")
    assert client.delete(f"/v1/sessions/{session}").status_code == 204
    for answer in (
        client.delete(f"/v1/sessions/{session}"),
        client.get(f"/v1/sessions/{session}/state"),
        client.post(f"/v1/sessions/{session}/feed", json={"input": "a"}),
        client.get("/v1/sessions/guessed"),
    ):
        refused(answer, 404, "session_not_found")


def replay(client: TestClient, player: RunPlayer, number: int) -> bool:
    """A random course of one session, and the same offline: whether all bits agree."""
    random, own = np.random.default_rng(number), player.start()
    session = opened(client, model="run")
    for _ in range(5):
        kind = random.integers(0, 3)
        if kind == 0 or not own.position:
            text = "".join(random.choice(list("the quick fox"), int(random.integers(1, 300))))
            found = call(client, session, "feed", input=text)["output"]
            expected: Any = np.asarray(own.feed(text)).tolist()
        elif kind == 1:
            ids = random.integers(0, player.tokens, int(random.integers(1, 60))).tolist()
            found = call(client, session, "step", inputs=ids)["outputs"]
            expected = [own.step(x).tolist() for x in ids]
        else:
            found = call(client, session, "generate", max_tokens=20, seed=number, top_p=0.9)["text"]
            expected = "".join(own.generate(20, seed=number, top_p=0.9))
        if found != expected:
            return False
    return state(client, session) == own.save()


def test_fifty_sessions_at_a_time_are_bit_equal_to_their_replay(client: TestClient, player: RunPlayer) -> None:
    with ThreadPoolExecutor(25) as pool:
        assert all(pool.map(lambda number: replay(client, player, number), range(50)))
    sizes = [line for line in client.get("/metrics").text.splitlines() if line.startswith("unspool_batch_size_bucket")]
    assert int(sizes[0].split()[-1]) < int(sizes[-1].split()[-1])  # some batches had more than one session


def accumulated(session: Session, *inputs: float) -> float:
    return [float(session.step([x])[0]) for x in inputs][-1]


def test_an_accumulator_has_the_sums_of_its_own_inputs(client: TestClient, accumulator: Path) -> None:
    """What it predicts is affine in the sum and the number of the inputs; another's input would show."""
    own = unspool.load(accumulator)
    first = accumulated(own.start(), 0)
    per_one, per_step = accumulated(own.start(), 1) - first, accumulated(own.start(), 0, 0) - first

    def total(number: int) -> float:
        session, inputs = opened(client, model="sum"), [[float(number + at)] for at in range(40)]
        found = [
            row
            for at in range(0, 40, 8)
            for row in call(client, session, "step", inputs=inputs[at : at + 8])["outputs"]
        ]
        sums = np.cumsum([x for (x,) in inputs])
        expected = first + per_one * sums + per_step * np.arange(40)
        return float(np.abs(np.array(found)[:, 0] - expected).max() / abs(per_one))

    assert abs(per_one) > 1e-3
    with ThreadPoolExecutor(20) as pool:
        assert max(pool.map(total, range(0, 2000, 50))) < 0.05  # in units of the input; others differ by 50


@pytest.mark.parametrize(
    ("what", "body"),
    [
        ("step", {"inputs": [-1]}),
        ("step", {"inputs": [1, 10**6]}),
        ("step", {"inputs": [[1.0]]}),
        ("step", {"inputs": []}),
        ("step", {"inputs": [1] * 4097}),
        ("step", {"inputs": [1], "outputs": "some"}),
        ("feed", {"input": "x" * 5000}),
        ("feed", {"input": [1.5]}),
        ("feed", {"input": ["a"]}),
        ("feed", {"input": [[1.0, 2.0]]}),
        ("feed", {}),
        ("generate", {"max_tokens": 5}),  # it has read nothing
        ("generate", {"n": 2}),
    ],
    ids=str,
)
def test_what_a_session_cannot_read_is_refused_and_changes_nothing(
    client: TestClient, what: str, body: dict[str, Any]
) -> None:
    session = opened(client, model="run")
    refused(client.post(f"/v1/sessions/{session}/{what}", json=body), 422)
    assert client.get(f"/v1/sessions/{session}").json()["position"] == 0


@pytest.mark.parametrize("inputs", [[1], [[1.0, 2.0]], [[]]], ids=str)
def test_steps_of_another_width_are_refused(client: TestClient, inputs: Any) -> None:
    session = opened(client, model="sum")
    refused(client.post(f"/v1/sessions/{session}/step", json={"inputs": inputs}), 422)
    refused(client.post(f"/v1/sessions/{session}/generate", json={}), 422)


def test_a_socket_has_the_bits_of_the_player(client: TestClient, player: RunPlayer) -> None:
    own, session = player.start(), opened(client, model="run")
    with talking(client, session) as socket:
        socket.send_json({"do": "feed", "id": 1, "input": "the "})
        socket.send_json({"do": "step", "id": "two", "inputs": [3, 1]})
        socket.send_json({"do": "generate", "id": 3, "max_tokens": 6, "seed": 2})
        socket.send_json({"do": "state", "id": 4})
        fed = np.asarray(own.feed("the ")).tolist()
        assert socket.receive_json() == {"id": 1, "position": 4, "output": fed}
        outputs = [own.step(x).tolist() for x in (3, 1)]
        assert socket.receive_json() == {"id": "two", "position": 6, "outputs": outputs}
        text = ""
        while "finish_reason" not in (event := socket.receive_json()):
            text += event["text"]
        assert text == "".join(own.generate(6, seed=2))
        saved = socket.receive_json()["state"]
        assert base64.b64decode(saved) == own.save()
        socket.send_json({"do": "fork"})
        fork = socket.receive_json()["session"]["id"]
        call(client, fork, "feed", input="dog")
        socket.send_json({"do": "restore", "state": saved})
        assert socket.receive_json() == {"id": None, "position": 12}
    assert state(client, session) == own.save() != state(client, fork)


def test_a_socket_refuses_what_it_cannot_read_and_goes_on(client: TestClient) -> None:
    session = opened(client, model="run")
    with talking(client, session) as socket:
        wrong = ["", "{", "[]", '{"do": 1}', '{"do": "feed"}', '{"do": "feed", "input": "a", "more": 1}', '{"do": NaN}']
        wrong += ['{"do": "restore", "state": "?"}', '{"do": "step", "inputs": [-1]}', '{"do": "generate"}']
        for text in wrong:
            socket.send_text(text)
            assert set(socket.receive_json()["error"]) == {"message", "type", "param", "code"}
        socket.send_bytes(b"\xff")
        assert socket.receive_json()["error"]["code"] == "invalid_json"
        socket.send_json({"do": "feed", "input": "a"})
        assert socket.receive_json()["position"] == 1


def test_a_text_is_stopped_while_it_is_written(client: TestClient) -> None:
    session = opened(client, model="run")
    with talking(client, session) as socket:
        socket.send_json({"do": "feed", "input": "the "})
        socket.receive_json()
        socket.send_json({"do": "generate", "id": 1, "max_tokens": 4096})
        socket.receive_json()
        socket.send_json({"do": "stop"})
        while "finish_reason" not in (event := socket.receive_json()):
            pass
        assert event["finish_reason"] == "stopped"
        assert 4 < event["position"] < 4100
        socket.send_json({"do": "feed", "id": 2, "input": "a"})
        assert socket.receive_json()["position"] == event["position"] + 1


def test_a_new_session_needs_a_model_where_there_are_several(client: TestClient) -> None:
    error = refused(client.post("/v1/sessions", json={}), 422, "missing_name")
    assert error["param"] == "model"
    assert json.loads(client.post("/v1/sessions", json={"model": "sum"}).text)["model"] == "sum"


def test_a_session_that_diverges_is_told_and_others_go_on(client: TestClient, accumulator: Path) -> None:
    session, other = opened(client, model="sum"), opened(client, model="sum")
    wide = [[3e38 * sign] for sign in (1, 1, 1, 1)]
    with ThreadPoolExecutor(2) as pool:
        answer = pool.submit(client.post, f"/v1/sessions/{session}/step", json={"inputs": wide * 50})
        found = pool.submit(call, client, other, "step", inputs=[[1.0]] * 200).result()
    assert "not finite" in refused(answer.result(), 422)["message"]
    own = unspool.load(accumulator).start()
    assert found["outputs"] == [own.step([1.0]).tolist() for _ in range(200)]
    refused(client.get(f"/v1/sessions/{session}/state"), 422)


@pytest.mark.parametrize("model", ["run", "sum"])
def test_more_outputs_than_an_answer_has_are_refused_and_change_nothing(
    client: TestClient, player: RunPlayer, monkeypatch: pytest.MonkeyPatch, model: str
) -> None:
    width = player.tokens if model == "run" else 1
    monkeypatch.setattr(session_calls, "MOST_NUMBERS", 3 * width)
    session, one = opened(client, model=model), 1 if model == "run" else [1.0]
    error = refused(client.post(f"/v1/sessions/{session}/step", json={"inputs": [one] * 4}), 422, "too_many_outputs")
    assert error["param"] == "inputs"
    assert "outputs of 3 are" in error["message"]
    assert client.get(f"/v1/sessions/{session}").json()["position"] == 0
    assert len(call(client, session, "step", inputs=[one] * 3)["outputs"]) == 3
    assert len(call(client, session, "step", inputs=[one] * 4, outputs="last")["outputs"]) == 1


def test_the_tokens_of_a_text_can_be_fed_in_parts(client: TestClient, player: RunPlayer) -> None:
    text = "the quick fox " * 400
    answer = client.post("/v1/tokens", json={"model": "run", "input": text}).json()
    check(schemas.TOKENS, answer)
    assert answer["tokens"] == player.encode(text)[:, 0].tolist()
    assert client.post("/v1/tokens", json={"model": "run", "input": ""}).json()["tokens"] == []
    refused(client.post("/v1/tokens", json={"model": "sum", "input": "the"}), 422)
