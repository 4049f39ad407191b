"""Completions: the texts of the player by the same seed, in the form of OpenAI."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from starlette.testclient import TestClient
from tests.server.serving import client_of, refused

import unspool
from unspool.runtime.run_player import RunPlayer
from unspool.server import schemas
from unspool.server.completions import Choice
from unspool.server.schema import check
from unspool.server.settings import ServeSettings


@pytest.fixture(scope="module")
def client(book: Path) -> Iterator[TestClient]:
    with client_of(book) as found:
        yield found


@pytest.fixture(scope="module")
def player(book: Path) -> RunPlayer:
    return unspool.load(book)


def ask(client: TestClient, **body: Any) -> Any:
    answer = client.post("/v1/completions", json={"model": "run", **body})
    assert answer.status_code == 200, answer.text
    check(schemas.COMPLETION, answer.json())
    return answer.json()


def events(text: str) -> list[Any]:
    """The values of server-sent events, the last of which says that all went well."""
    *found, last, rest = text.split("\n\n")
    assert (last, rest) == ("data: [DONE]", "")
    return [json.loads(one.removeprefix("data: ")) for one in found]


@pytest.mark.parametrize(
    "options",
    [{}, {"temperature": 0}, {"temperature": 0.7, "top_p": 0.9}, {"top_k": 3}, {"stop": "e"}, {"stop": ["th", " q"]}],
    ids=str,
)
@pytest.mark.parametrize("prompt", ["the ", "", "床前"])
def test_a_completion_is_the_text_of_the_player(
    client: TestClient, player: RunPlayer, prompt: str, options: dict[str, Any]
) -> None:
    found = ask(client, prompt=prompt, max_tokens=24, seed=5, **options)
    expected = "".join(player.generate(prompt, 24, seed=5, **options))
    (choice,) = found["choices"]
    assert choice["text"] == expected
    assert choice["finish_reason"] == ("stop" if len(expected) < 24 else "length")
    assert found["usage"]["prompt_tokens"] == len(player.generator().prompt(prompt))
    streamed = client.post(
        "/v1/completions",
        json={"model": "run", "prompt": prompt, "max_tokens": 24, "seed": 5, "stream": True, **options},
    )
    assert streamed.headers["content-type"].startswith("text/event-stream")
    pieces = events(streamed.text)
    assert "".join(piece["choices"][0]["text"] for piece in pieces) == expected
    assert [piece["choices"][0]["finish_reason"] for piece in pieces][-1] == choice["finish_reason"]


def test_several_prompts_and_texts_have_seeds_one_after_the_other(client: TestClient, player: RunPlayer) -> None:
    prompts = ["the ", "dog", "f"]
    found = ask(client, prompt=prompts, max_tokens=9, seed=3, n=2, echo=True)["choices"]
    assert [choice["index"] for choice in found] == list(range(6))
    for index, choice in enumerate(found):
        prompt = prompts[index // 2]
        assert choice["text"] == prompt + "".join(player.generate(prompt, 9, seed=3 + index))
    ids = player.encode("the ")[:, 0].tolist()
    assert ask(client, prompt=ids, max_tokens=9, seed=3)["choices"][0]["text"] == found[0]["text"].removeprefix("the ")
    assert ask(client, prompt=[ids, ids], max_tokens=2)["usage"] == {
        **{"prompt_tokens": 8, "completion_tokens": 4, "total_tokens": 12}
    }
    without = [ask(client, prompt="the ", max_tokens=30)["choices"][0]["text"] for _ in range(3)]
    assert len(set(without)) > 1


def test_log_probabilities_are_those_of_the_model(client: TestClient, player: RunPlayer) -> None:
    found = ask(client, prompt="the ", max_tokens=8, seed=1, temperature=0.5, logprobs=3)["choices"][0]
    told = found["logprobs"]
    assert "".join(told["tokens"]) == found["text"]
    assert told["text_offset"] == list(range(8))
    session = player.start()
    logits = session.feed("the ")
    assert logits is not None
    for token, log_p, best in zip(told["tokens"], told["token_logprobs"], told["top_logprobs"], strict=True):
        exact = np.asarray(logits, np.float64)
        expected = exact - np.log(np.exp(exact).sum())
        (number,) = player.encode(token)[:, 0]
        assert np.isclose(log_p, expected[number], rtol=1e-12, atol=1e-12)
        assert np.allclose(sorted(best.values()), np.sort(expected)[-3:], rtol=1e-12, atol=1e-12)
        logits = session.step(int(number))


def test_usage_comes_with_a_stream_where_it_is_wanted(client: TestClient) -> None:
    body = {
        "model": "run",
        "prompt": "the ",
        "max_tokens": 3,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    *_, last = events(client.post("/v1/completions", json=body).text)
    assert last["usage"]["completion_tokens"] == 3
    assert last["choices"] == []


@pytest.mark.parametrize(
    ("body", "param", "code"),
    [
        ({}, "model", "missing_name"),
        ({"model": "run", "promt": "x"}, "promt", "unknown_name"),
        ({"model": "run", "max_tokens": -1}, "max_tokens", "invalid_value"),
        ({"model": "run", "max_tokens": 4097}, "max_tokens", "invalid_value"),
        ({"model": "run", "max_tokens": True}, "max_tokens", "invalid_value"),
        ({"model": "run", "max_tokens": 100, "n": 50}, "max_tokens", "too_many_tokens"),
        ({"model": "run", "prompt": "x" * 4090, "max_tokens": 16}, "max_tokens", "too_many_tokens"),
        ({"model": "run", "temperature": -1}, "temperature", "invalid_value"),
        ({"model": "run", "top_p": 0}, "top_p", "invalid_value"),
        ({"model": "run", "stop": [""]}, "stop[0]", "invalid_value"),
        ({"model": "run", "stop": ["a"] * 5}, "stop", "invalid_value"),
        ({"model": "run", "seed": -1}, "seed", "invalid_value"),
        ({"model": "run", "prompt": [10**6]}, "prompt", "invalid_value"),
        ({"model": "run", "prompt": []}, "prompt", "invalid_value"),
        ({"model": "run", "prompt": ["a", 1]}, "prompt[1]", "invalid_value"),
        ({"model": "run", "presence_penalty": 1}, "presence_penalty", "invalid_value"),
        ({"model": "run", "best_of": 2}, "best_of", "invalid_value"),
        ({"model": "run", "n": 129}, "n", "invalid_value"),
        ({"model": "run", "suffix": "x"}, "suffix", "invalid_value"),
        ({"model": "run", "logit_bias": {"1": 2}}, "logit_bias", "invalid_value"),
        ({"model": "run", "stream_options": {"no": 1}}, "stream_options.no", "unknown_name"),
    ],
    ids=str,
)
def test_what_cannot_be_used_is_refused_with_its_place(
    client: TestClient, body: dict[str, Any], param: str, code: str
) -> None:
    error = refused(client.post("/v1/completions", json=body), 422, code)
    assert error["param"] == param
    assert error["type"] == "invalid_request_error"


def test_a_model_that_is_not_there_is_refused(client: TestClient) -> None:
    error = refused(client.post("/v1/completions", json={"model": "../run"}), 404, "model_not_found")
    assert "Served: run" in error["message"]


def test_neutral_penalties_of_other_clients_are_accepted(client: TestClient) -> None:
    ask(client, prompt="a", max_tokens=1, presence_penalty=0, frequency_penalty=0.0, user="me", top_p=None, stop=None)


def test_null_stands_for_what_is_assumed(client: TestClient) -> None:
    """Clients that send every name send null for what nobody has set."""
    names = ("n", "max_tokens", "stream", "echo", "logprobs", "best_of", "suffix", "logit_bias", "stop", "user")
    found = ask(client, prompt="the ", seed=2, **dict.fromkeys(names))
    assert found["choices"] == ask(client, prompt="the ", seed=2, best_of=1, logit_bias={})["choices"]
    assert found["usage"]["completion_tokens"] == 16


def test_no_tokens_may_be_asked_for(client: TestClient) -> None:
    (choice,) = ask(client, prompt="the ", max_tokens=0, echo=True)["choices"]
    assert (choice["text"], choice["finish_reason"]) == ("the ", "length")
    assert ask(client, prompt="the ", max_tokens=0)["choices"][0]["text"] == ""


@pytest.mark.parametrize("prompt", ["the quick fox " * 12, [3, 1, 4, 1, 5]], ids=["text", "ids"])
def test_a_prompt_is_repeated_with_the_probabilities_of_its_tokens(
    client: TestClient, player: RunPlayer, prompt: Any
) -> None:
    body = {"prompt": prompt, "max_tokens": 2, "seed": 1, "logprobs": 2, "echo": True, "n": 2}
    first, second = ask(client, **body)["choices"]
    ids = player.encode(prompt)[:, 0].tolist()
    text = prompt if isinstance(prompt, str) else player.decode(prompt)
    told = first["logprobs"]
    assert first["text"] == "".join(told["tokens"]) == text + "".join(told["tokens"][len(ids) :])
    assert second["logprobs"]["token_logprobs"][: len(ids)] == told["token_logprobs"][: len(ids)]
    assert told["text_offset"] == list(range(len(ids) + 2))
    assert told["token_logprobs"][0] is told["top_logprobs"][0] is None
    session = player.start()
    for place, token in enumerate(ids[:-1], 1):
        exact = np.asarray(session.step(token), np.float64)
        expected = exact - np.log(np.exp(exact).sum())
        assert np.isclose(told["token_logprobs"][place], expected[ids[place]], rtol=1e-12, atol=1e-12)
        assert np.allclose(sorted(told["top_logprobs"][place].values()), np.sort(expected)[-2:], rtol=1e-12)
    streamed = events(client.post("/v1/completions", json={"model": "run", **body, "n": 1, "stream": True}).text)
    parts = [one["choices"][0] for one in streamed]
    assert "".join(part["text"] for part in parts) == first["text"]
    for name in ("tokens", "token_logprobs", "text_offset"):
        assert [value for part in parts for value in (part["logprobs"] or {name: []})[name]] == told[name]


def test_the_limits_are_in_the_schema() -> None:
    body = schemas.completion_body(ServeSettings(max_tokens=7))
    assert body["properties"]["max_tokens"]["anyOf"][0]["maximum"] == body["properties"]["max_tokens"]["default"] == 7


def test_a_mistake_in_the_middle_of_a_stream_ends_it_with_an_error_and_is_logged(
    client: TestClient, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: Any) -> Any:
        raise KeyError

    monkeypatch.setattr(Choice, "shown", fail)
    answer = client.post("/v1/completions", json={"model": "run", "prompt": "the", "stream": True})
    *_, last, rest = answer.text.split("\n\n")
    assert (json.loads(last.removeprefix("data: "))["error"]["code"], rest) == ("internal_error", "")
    assert "KeyError" in caplog.text
