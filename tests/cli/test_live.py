"""The live view: it draws little, costs little, and gives the terminal back however it ends."""

from __future__ import annotations

import io
import os
import sys
import time
from dataclasses import replace

import pytest
from rich.console import Console
from tests.cli.made_up import EVALUATED, FINISHED, HOSTILE, SHOWN, STARTED, STEPPED, Closing

from unspool.cli import live
from unspool.cli.views import LiveView
from unspool.learning.events import Advised


def terminal(width: int = 100, height: int = 40) -> tuple[Console, io.StringIO]:
    stream = io.StringIO()
    return Console(file=stream, force_terminal=True, width=width, height=height, highlight=False, markup=False), stream


def test_live_leaves_the_last_state_and_the_last_words() -> None:
    out, stream = terminal()
    before = sys.stdout, sys.stderr
    with LiveView(out) as view:
        for event in (STARTED, STEPPED, EVALUATED, FINISHED):
            view(event)
    assert (sys.stdout, sys.stderr) == before
    text = stream.getvalue()
    assert text.rindex("\x1b[?25h") > text.rindex("\x1b[?25l")
    last = text[text.rindex("1,234,567 parameters") :]
    for words in (
        "24,310 characters/s",
        "★ best",
        "on validation data",
        "11.59",
        "│ To be, or not",
        "unspool evaluate",
    ):
        assert words in last
    assert last.index("★ best") < last.index("on validation data")


def test_live_interprets_nothing_in_a_sample() -> None:
    out, stream = terminal(200)
    with LiveView(out) as view:
        view(replace(STARTED, run="runs/[red]x\x1b[2J"))
        view(replace(EVALUATED, sample=HOSTILE))
    text = stream.getvalue()
    assert "│ " + SHOWN in text
    assert "runs/[red]x␛[2J" in text
    assert not any(sequence in text for sequence in ("\x1b[2J", "\x1b[31mred", "\x07", "\x9b", "\u202e"))


def test_live_without_colours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    out, stream = terminal()
    with LiveView(out) as view:
        for event in (STARTED, STEPPED, EVALUATED, Advised(400, "rest")):
            view(event)
    assert "advice at step 400: rest" in stream.getvalue()
    assert not any(f"\x1b[{colour}m" in stream.getvalue() for colour in (32, 33, 35, 36))


def test_live_takes_thousands_of_events_and_draws_few() -> None:
    out, stream = terminal()
    events = [replace(STEPPED, step=step, loss=3 / (1 + step / 1000)) for step in range(20_000)]
    with LiveView(out) as view:
        view(STARTED)
        began = time.perf_counter()
        for step, event in enumerate(events):
            view(event)
            if step % 100 == 0:
                view(replace(EVALUATED, step=step))
        spent = time.perf_counter() - began
    assert spent < 5
    drawn = stream.getvalue().count("1,234,567 parameters")
    assert 1 <= drawn <= live.REDRAWS * spent + 2
    assert "19,999 of 1,000" in stream.getvalue()


def test_live_redraws_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "REDRAWS", 100)
    out, stream = terminal()
    with LiveView(out) as view:
        view(STARTED)
        view(STEPPED)
        deadline = time.monotonic() + 10
        while "24,310" not in stream.getvalue() and time.monotonic() < deadline:
            time.sleep(0.01)
        assert "24,310" in stream.getvalue()


def test_live_gives_the_terminal_back_when_training_fails() -> None:
    out, stream = terminal()
    before = sys.stdout

    def train() -> None:
        with LiveView(out) as view:
            view(STARTED)
            view(EVALUATED)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        train()
    assert sys.stdout is before
    assert "★ best" in stream.getvalue()
    assert stream.getvalue().rindex("\x1b[?25h") > stream.getvalue().rindex("\x1b[?25l")


@pytest.mark.parametrize(("error", "left_by"), [(BrokenPipeError(), SystemExit), (OSError(5, "gone"), OSError)])
def test_live_on_a_terminal_that_has_gone(
    error: OSError, left_by: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "REDRAWS", 100)
    monkeypatch.setattr(os, "dup2", lambda *_: None)  # rich would close this process's standard output
    stream = Closing()
    before = sys.stdout

    def train() -> None:
        with LiveView(Console(file=stream, force_terminal=True, width=100, height=40)) as view:
            view(STARTED)
            stream.error = error
            deadline = time.monotonic() + 10
            while time.monotonic() < deadline:
                view(STEPPED)
                time.sleep(0.01)
            pytest.fail("training goes on though nobody reads any more")

    with pytest.raises(left_by):
        train()
    assert sys.stdout is before
