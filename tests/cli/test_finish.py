"""The last words about a run: the metrics beside the baselines, and commands that can be copied."""

from __future__ import annotations

import io
from dataclasses import replace

from rich.console import Console
from tests.cli.made_up import FINISHED, NAN

from unspool.cli.views import render_finish
from unspool.learning.events import Finished


def last_words(event: Finished, width: int = 100) -> list[str]:
    out = Console(file=io.StringIO(), width=width, color_system=None, highlight=False, markup=False)
    with out.capture() as capture:
        out.print(render_finish(event), crop=False)
    return [line.rstrip() for line in capture.get().rstrip("\n").split("\n")]


def test_finish_in_a_frame() -> None:
    lines = last_words(FINISHED, 60)
    assert "╭─ sample of the best model " + "─" * 31 + "╮" in lines
    assert "│ To be, or not" + " " * 44 + "│" in lines


def test_an_interrupted_run_says_how_to_go_on() -> None:
    lines = last_words(replace(FINISHED, reason="interrupted", run="runs/my hamlet", advice="", proposal={}))
    assert lines[0].startswith("Interrupted after 1,000 steps and 2:00")
    assert lines[-3:] == [
        "to resume: unspool train 'runs/my hamlet' --resume",
        "next: unspool generate 'runs/my hamlet' --prompt Hamlet",
        "      unspool evaluate 'runs/my hamlet' FILE",
    ]


def test_several_processes_go_on_as_several() -> None:
    lines = last_words(replace(FINISHED, reason="interrupted", run="runs/hamlet", processes=2, proposal={}))
    assert lines[-3] == "to resume: unspool train runs/hamlet --resume --nproc 2"


def test_commands_are_never_broken() -> None:
    run = "runs/" + "a-long-name-" * 8
    lines = last_words(replace(FINISHED, run=run), 60)
    assert lines[-3:] == [
        f"next: unspool generate {run} --prompt Hamlet",
        f"      unspool evaluate {run} FILE",
        f"      unspool train --config {run}/config.toml --out {run}-2 --dropout 0.2",
    ]


def test_models_are_compared_by_what_the_task_chooses_by() -> None:
    event = replace(
        FINISHED,
        validation={"loss": 0.4, "accuracy": 0.95},
        test={},
        baselines={"cnn": {"loss": 0.3, "accuracy": 0.925}, "bag": {"accuracy": 0.9}},
        task="classify",
        chosen_by="accuracy",
        more_is_better=True,
    )
    lines = last_words(event)
    assert lines[2:6] == [
        "on validation data   loss  accuracy",
        "model               0.400     0.950",
        "cnn                 0.300     0.925",
        "bag                     –     0.900",
    ]
    assert "The model beats every baseline; the nearest is cnn, by 0.025 of accuracy." in lines
    assert "next: unspool predict runs/hamlet FILE" in lines


def test_finish_says_when_a_network_was_not_worth_it() -> None:
    text = " ".join(
        last_words(
            replace(FINISHED, baselines={"bigram": {"loss": 1.25}, "odd": {"loss": NAN}, "unigram": {"loss": 3.0}})
        )
    )
    assert "The model is not better than bigram: 0.250 nats behind." in text


def test_finish_of_a_run_with_nothing() -> None:
    lines = last_words(
        replace(
            FINISHED,
            reason="stopped early",
            validation={"loss": NAN},
            test={},
            baselines={},
            sample="",
            prompt="",
            advice="",
            proposal={},
        )
    )
    assert lines == [
        "Stopped early: the validation loss no longer improved after 1,000 steps and 2:00 · best at step 800",
        "· runs/hamlet",
        "",
        "on validation data  loss",
        "model                NaN",
        "",
        "next: unspool generate runs/hamlet",
        "      unspool evaluate runs/hamlet FILE",
    ]


def test_a_tie_is_called_one_and_an_empty_table_is_left_out() -> None:
    tied = replace(FINISHED, baselines={"bigram": {"loss": 1.5}})
    assert "The model is no better than bigram: both have loss 1.500." in last_words(tied)
    nothing = replace(FINISHED, reason="interrupted", validation={}, test={}, baselines={}, sample="")
    assert not any(line.startswith("on validation data") for line in last_words(nothing))
