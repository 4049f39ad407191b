"""What to try next follows from the losses, the baselines and the settings; and the log keeps it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.cli.made_up import FINISHED
from tests.runs.tiny_run import train_tiny

from unspool.learning.advice import Point
from unspool.runs.config import Config, read_config
from unspool.runs.follow_up import FollowUp, find_better_baseline, follow_up, read_follow_up, with_follow_up


def course(training: list[float], validation: list[float]) -> list[Point]:
    both = zip(training, validation, strict=True)
    return [Point(100 * (place + 1), *losses) for place, losses in enumerate(both)]


OVERFITTED = course([3.0, 2.0, 1.5, 1.2, 0.9, 0.7], [3.1, 2.2, 1.9, 1.95, 2.05, 2.2])
UNDERFITTED = course([4.0, 3.5, 3.2, 3.0, 2.85], [4.02, 3.53, 3.24, 3.05, 2.91])
DIVERGED = course([4.0, 2.5, 2.0, 2.4, 5.0], [4.0, 2.6, 2.1, 2.5, 5.2])
STALLED = course([4.61, 4.60, 4.61, 4.605, 4.60], [4.61, 4.61, 4.6, 4.6, 4.61])
LEVEL = course([2.0, 1.52, 1.51, 1.51], [2.1, 1.53, 1.52, 1.52])
APART = course([2.0, 1.3, 1.2, 1.2], [2.1, 1.6, 1.6, 1.6])


def config(model: dict[str, Any] | None = None, **training: Any) -> Config:
    sections = {"data": {"files": ["book.txt"]}, "model": model or {}, "training": {"epochs": 10, **training}}
    return read_config(sections, task="lm")


@pytest.mark.parametrize(
    ("history", "settings", "proposal", "flawed"),
    [
        (OVERFITTED, config(), {"dropout": 0.2}, True),
        (OVERFITTED, config({"dropout": 0.2}), {"dropout": 0.4}, True),
        (OVERFITTED, config({"dropout": 0.4}), {"dropout": 0.5}, True),
        (OVERFITTED, config({"dropout": 0.5, "hidden": 256}), {"hidden": 128}, True),
        (OVERFITTED, config({"dropout": 0.5, "hidden": [64, 32]}), {"hidden": [32, 16]}, True),
        (OVERFITTED, config({"dropout": "auto"}), {"weight_decay": 0.01}, True),
        (OVERFITTED, config({"backbone": "mlp"}, weight_decay=0.1), {"weight_decay": 0.3}, True),
        (UNDERFITTED, config(), {"epochs": 20}, True),
        (course([2.0, 1.0], [2.0, 1.1]), config(), {"epochs": 20}, True),
        (course([2.0, 1.0, 0.5], [2.0, 1.1, 0.9]), config(), {"epochs": 20}, True),
        (
            course([3.0 - 0.1 * n for n in range(10)], [4.64 - 0.018 * n for n in range(10)]),
            config(),
            {"epochs": 20},
            True,
        ),
        (UNDERFITTED, config(epochs=None, minutes=5), {"minutes": 10}, True),
        (DIVERGED, config(lr=0.03), {"lr": 0.01}, True),
        (STALLED, config(lr=0.1), {"lr": 0.01}, True),
        (STALLED, config(lr=1e-5), {"lr": 1e-4}, True),
        (LEVEL, config({"hidden": 256}), {"hidden": 512}, False),
        (course([1.0, 2e-8], [1.0, 2e-8]), config(), {}, False),
        (APART, config(), {"dropout": 0.2}, False),
    ],
)
def test_what_to_try_next(history: list[Point], settings: Config, proposal: dict[str, Any], flawed: bool) -> None:
    found = follow_up(FINISHED, settings, history)
    assert found.settings == proposal
    assert found.flawed is flawed
    assert found.text


def test_overfitting_is_never_answered_by_more_units() -> None:
    for dropout in (0.0, 0.3, 0.5, 0.8, "auto"):
        settings = config({"dropout": dropout, "hidden": 100})
        assert follow_up(FINISHED, settings, OVERFITTED).settings.get("hidden", 0) < 100


def test_a_baseline_that_is_better_is_named() -> None:
    behind = replace(FINISHED, baselines={"bigram": {"loss": 1.25}, "5-gram": {"loss": 1.2}, "odd": {"loss": 9.0}})
    found = with_follow_up(behind, config(), LEVEL)
    assert found.behind == "5-gram"
    assert found.flawed
    by_accuracy = replace(behind, chosen_by="accuracy", more_is_better=True, validation={"accuracy": 0.8})
    assert find_better_baseline(replace(by_accuracy, baselines={"bag": {"accuracy": 0.81}, "fcn": {}})) == "bag"
    assert find_better_baseline(replace(by_accuracy, baselines={"bag": {"accuracy": 0.79}})) == ""


def test_an_interrupted_run_gets_no_advice() -> None:
    interrupted = replace(FINISHED, reason="interrupted", advice="", proposal={}, flawed=False)
    assert with_follow_up(interrupted, config(), OVERFITTED) == interrupted


def test_the_log_of_a_run_keeps_the_advice(tmp_path: Path) -> None:
    run = train_tiny(tmp_path)
    told = run.finished
    assert read_follow_up(run.path) == FollowUp(told.advice, told.proposal, told.flawed, told.behind)
    assert told.proposal
    assert told.prompt in run.text.read_text(encoding="utf-8").split()
    log = run.path / "metrics.jsonl"
    lines = log.read_text(encoding="utf-8").splitlines()
    for last in ("", "{", "[]", "3", json.dumps({"event": "finished"}), lines[0], "\x00"):
        log.write_text("\n".join([*lines, last]) + "\n", encoding="utf-8")
        assert read_follow_up(run.path) is None
    log.unlink()
    assert read_follow_up(run.path) is None
