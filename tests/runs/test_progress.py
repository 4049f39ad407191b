"""Progress in Python: a line per evaluation, unless it is not wanted."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from tests.cli.made_up import EVALUATED, FINISHED, HOSTILE, SHOWN, STARTED, STEPPED
from tests.runs.tiny_run import OPTIONS, TEXT

from unspool.learning.events import Advised
from unspool.runs.progress import describe_event, print_progress
from unspool.runs.train import train


def test_a_line_per_event() -> None:
    events = [STARTED, STEPPED, EVALUATED, replace(EVALUATED, training=None, fraction=0.0), Advised(400, "Stop.")]
    assert [describe_event(event) for event in [*events, FINISHED]] == [
        "runs/hamlet: text, 1,234,567 parameters, 1,000 steps",
        "",
        "step 400 · 40% · training loss 1.873 · validation loss 1.9, perplexity 6.686, bits 2.741 · 72 s left",
        "step 400 · 0% · validation loss 1.9, perplexity 6.686, bits 2.741 · 48 s",
        "step 400: Stop.",
        "done after 1,000 steps and 120 s · best at step 800: loss 1.5, perplexity 4.482, bits 2.164 · runs/hamlet",
    ]


def test_nothing_in_a_line_acts_on_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    print_progress(Advised(1, HOSTILE))
    assert capsys.readouterr().out == f"step 1: {SHOWN}\n"


@pytest.mark.parametrize("quiet", [False, True])
def test_training_in_python_shows_progress(tmp_path: Path, capsys: pytest.CaptureFixture[str], quiet: bool) -> None:
    text = tmp_path / "text.txt"
    text.write_text(TEXT, encoding="utf-8")
    train(text, out=tmp_path / "run", quiet=quiet, **{**OPTIONS, "steps": 4, "eval_every": 2})
    lines = capsys.readouterr().out.splitlines()
    if quiet:
        assert lines == []
    else:
        assert [line.split(" · ")[0] for line in lines[1:3]] == ["step 2", "step 4"]
        assert lines[-1].startswith("done after 4 steps")
