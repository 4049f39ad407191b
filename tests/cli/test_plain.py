"""A run in plain lines: every word of them."""

from __future__ import annotations

import io
from dataclasses import replace
from typing import Any

from tests.cli.made_up import EVALUATED, FINISHED, NAN, STARTED, STEPPED

from unspool.cli.views import PlainView
from unspool.learning.events import Advised, Event, Saved


def plainly(events: list[Event], **options: Any) -> str:
    stream = io.StringIO()
    with PlainView(stream, **options) as view:
        for event in events:
            view(event)
    return stream.getvalue()


def test_plain_lines() -> None:
    events = [
        STARTED,
        STEPPED,
        EVALUATED,
        Saved(400, "runs/hamlet/last.pt"),
        Advised(400, "try\x1b[2J a [red]larger[/red] model"),
        replace(EVALUATED, step=1200, training=None, validation={"loss": NAN, "accuracy": 0.5}, best=False, sample=""),
    ]
    times = iter([0.0, 0.0, 61.0, 62.0])  # of the start, a step and two evaluations
    assert plainly(events, clock=lambda: next(times)).split("\n") == [
        "started runs/hamlet · text · 1,234,567 parameters · 1,000 steps",
        "  data: hamlet.txt, 180,000 characters",
        "  model: 2 × LSTM of 256",
        "  baselines: unigram (loss 3.320), bigram (loss 2.450)",
        "step 400 · epoch 0.8 · 40% · loss 1.873 · 24,310 characters/s · 1:12 left",
        "evaluated step 400 · epoch 0.8 · training 1.873 · validation 1.900 · perplexity 6.69 · bits 2.741 · "
        "best so far",
        "    To be, or not",
        "    →   to be",
        "saved step 400 · runs/hamlet/last.pt",
        "advice at step 400: try␛[2J a [red]larger[/red] model",
        "evaluated step 1,200 · epoch 0.8 · training – · validation NaN · accuracy 0.500",
        "",
    ]


def test_a_short_run_shows_no_sample_but_the_last() -> None:
    events = [STARTED, *(replace(EVALUATED, step=step, sample=f"sample {step}") for step in range(20))]
    assert "sample" not in plainly(events)
    assert "To be" in plainly([*events, FINISHED])


def test_samples_come_once_a_minute_and_in_part() -> None:
    times = iter([0.0, 30.0, 61.0, 90.0, 122.0])
    long = "x" * 300 + "\nb\nc\nd\ne\n"
    events = [STARTED, *(replace(EVALUATED, step=step, sample=f"{step}{long}") for step in range(4))]
    lines = plainly(events, clock=lambda: next(times)).splitlines()[4:]
    assert [line for line in lines if line.startswith(" ")] == [
        line for step in (1, 3) for line in (f"    {step}{'x' * 117} …", "    b", "    c", "    …")
    ]


def test_plain_says_how_a_run_goes_on() -> None:
    line = plainly([replace(STARTED, step=300, steps=None, baselines={}, plan={})])
    assert line == ("resumed runs/hamlet · text · 1,234,567 parameters · until time is up · at step 300\n")


def test_plain_speaks_of_steps_every_ten_seconds() -> None:
    times = iter([100.0, 100.5, 109.9, 110.0, 119.0, 121.0])
    text = plainly([replace(STEPPED, step=step) for step in range(1, 7)], clock=lambda: next(times))
    assert [line.split(" · ")[0] for line in text.splitlines()] == ["step 1", "step 4", "step 6"]


def test_plain_finish() -> None:
    assert plainly([FINISHED]).split("\n") == [
        "Done after 1,000 steps and 2:00 · best at step 800 · runs/hamlet",
        "",
        "on validation data    loss  perplexity   bits",
        "model                1.500        4.48  2.164",
        "bigram               2.450       11.59  3.535",
        "unigram              3.320       27.66  4.790",
        "model, on test data  1.600        4.95  2.308",
        "",
        "The model beats every baseline; the nearest is bigram, by 0.950 nats.",
        "",
        "The model overfits: regularize it.",
        "",
        "    To be, or not",
        "    →   to be",
        "",
        "next: unspool generate runs/hamlet --prompt Hamlet",
        "      unspool evaluate runs/hamlet FILE",
        "      unspool train --config runs/hamlet/config.toml --out runs/hamlet-2 --dropout 0.2",
        "",
    ]


def test_plain_in_another_encoding() -> None:
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding="ascii")
    with PlainView(stream) as view:
        view(replace(EVALUATED, sample="红"))
    assert raw.getvalue().startswith(b"evaluated step 400 ? epoch 0.8")
