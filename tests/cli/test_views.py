"""Which view is chosen, JSON lines, silence, and a pipe that closes."""

from __future__ import annotations

import io
import json
import sys
from dataclasses import replace

import pytest
from tests.cli.made_up import EVALUATED, FINISHED, INF, NAN, STARTED, STEPPED, Closing

from unspool.cli.views import JsonView, LiveView, PlainView, QuietView, choose_view


def test_json_lines() -> None:
    stream = io.StringIO()
    odd = replace(EVALUATED, training=NAN, validation={"loss": INF, "bits": 1.5}, sample="红\n楼")
    with JsonView(stream) as view:
        for event in (STARTED, odd):
            view(event)
    first, second = stream.getvalue().splitlines()
    assert json.loads(first) == STARTED.as_json()
    assert json.loads(second) == odd.as_json() | {"training": None, "validation": {"loss": None, "bits": 1.5}}
    assert "红\\n楼" in second


@pytest.mark.parametrize(("encoding", "sample"), [("utf-8", "half \ud800"), ("ascii", "红")])
def test_json_escapes_what_the_stream_cannot_hold(encoding: str, sample: str) -> None:
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding=encoding)
    JsonView(stream)(replace(EVALUATED, sample=sample))
    assert json.loads(raw.getvalue())["sample"] == sample


def test_quiet_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with QuietView() as view:
        for event in (STARTED, STEPPED, EVALUATED, FINISHED):
            view(event)
    assert capsys.readouterr() == ("", "")


def test_choice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")  # a log is no terminal, whatever colours are asked for
    assert type(choose_view()) is PlainView
    assert type(choose_view(json=True)) is type(choose_view(json=True, quiet=True)) is JsonView
    assert type(choose_view(quiet=True)) is QuietView
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BytesIO(), encoding="utf-8"))
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert type(choose_view()) is LiveView
    assert type(choose_view(json=True)) is JsonView
    monkeypatch.setenv("TERM", "dumb")
    assert type(choose_view()) is PlainView


@pytest.mark.parametrize("kind", [PlainView, JsonView])
def test_a_closed_pipe_reaches_the_caller(kind: type[PlainView] | type[JsonView]) -> None:
    stream = Closing()
    with kind(stream) as view:
        view(STARTED)
        stream.error = BrokenPipeError()
        with pytest.raises(BrokenPipeError):
            view(STEPPED)
