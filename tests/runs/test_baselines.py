"""Baselines: what they are, that they are trained in the same way, and what a model without memory can know."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.tasks.labelled_texts import ordered_texts, write_table

import unspool
from unspool.cli.finish import table as table_of
from unspool.errors import ArgumentError
from unspool.learning.events import Advised, Event
from unspool.learning.loop import Loop
from unspool.runs.baselines import baselines_of, describe_seconds
from unspool.runs.train import plan


def test_what_is_about_memory_is_left_out(tmp_path: Path) -> None:
    table = write_table(tmp_path / "order.csv", ordered_texts(20))
    settings = plan(
        table, layers=2, hidden=9, zoneout=0.1, deep_supervision=0.3, dropout="auto", learning_rule="bptt", lr=0.1
    )
    found = baselines_of(settings)
    assert set(found) == {"bag of vectors", "shared FCN, summed", "1-D convolution", "3-layer convolution (7 steps)"}
    assert [found[name].model.cnn_layers for name in ("1-D convolution", "3-layer convolution (7 steps)")] == [1, 3]
    for baseline in found.values():
        assert (baseline.model.zoneout, baseline.model.deep_supervision, baseline.model.dropout) == (0.0, 0.0, 0.0)
        assert not baseline.model.input_window
        assert (baseline.model.hidden, baseline.training.lr) == (9, 0.1)


def test_a_language_model_without_memory_knows_pairs_alone(tmp_path: Path) -> None:
    """In "abac…" what follows a is b or c in turn: log 2 every second step without memory, nothing with it."""
    (tmp_path / "turns.txt").write_text("abac" * 2000)
    settings: dict[str, Any] = {"hidden": 16, "steps": 150, "batch_size": 8, "bptt": 16, "lr": 0.02}
    run = unspool.train(tmp_path / "turns.txt", out=tmp_path / "run", baselines=True, **settings)
    baseline = run.finished.baselines["stateless MLP"]
    assert baseline["loss"] == pytest.approx(math.log(2) / 2, abs=0.01)
    assert run.finished.validation["loss"] < 0.05
    events: list[Event] = []
    unspool.train(out=tmp_path / "run", resume=True, tell=events.append)
    said = [event.text for event in events if isinstance(event, Advised)]
    announced = r"The model is trained. Training 1 baseline without memory for comparison, about \d+ (s|min)\."
    assert [bool(re.fullmatch(announced, text)) for text in said] == [True]


def test_baselines_are_measured_on_test_data_too(tmp_path: Path) -> None:
    """Labels depend on order alone: what knows none is right half the time, on either part."""
    table = write_table(tmp_path / "order.csv", ordered_texts(300))
    settings: dict[str, Any] = {"hidden": 12, "lr": 0.02, "epochs": 4, "tokenizer": "char", "dropout": 0.0}
    run = unspool.train(table, out=tmp_path / "run", test=0.2, baselines=True, quiet=True, **settings)
    finished = run.finished
    assert set(finished.test_baselines) == set(finished.baselines)
    assert 0.25 < finished.test_baselines["bag of vectors"]["accuracy"] < 0.75
    assert finished.test_baselines["majority class"] != finished.baselines["majority class"]
    assert "| bag of vectors, test |" in (tmp_path / "run" / "MODEL_CARD.md").read_text()
    assert "bag of vectors, on test data" in [row[0] for row in table_of(finished)]


@pytest.mark.parametrize("when", ["rehearse", "run"])
def test_a_baseline_that_diverges_is_left_out_and_the_run_finishes(
    when: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The weights of one baseline become NaN, before its speed is measured or before it is trained."""
    table = write_table(tmp_path / "order.csv", ordered_texts(40))
    use = getattr(Loop, when)

    def spoil(self: Loop, *given: Any) -> Any:
        if any("bag" in type(module).__name__.lower() for module in self.learner.modules()):
            with torch.no_grad():
                next(iter(self.learner.parameters())).fill_(math.nan)
        return use(self, *given)

    monkeypatch.setattr(Loop, when, spoil)
    events: list[Event] = []
    settings: dict[str, Any] = {"hidden": 4, "steps": 2, "tokenizer": "char", "test": 0.2, "baselines": True}
    finished = unspool.train(table, out=tmp_path / "run", tell=events.append, **settings).finished
    assert events[-1] == finished
    assert finished.validation
    others = {"shared FCN, summed", "1-D convolution", "3-layer convolution (7 steps)"}
    assert others <= set(finished.baselines)
    said = [event.text for event in events if isinstance(event, Advised) and "diverged" in event.text]
    if when == "rehearse":  # that is another model
        assert "bag of vectors" in finished.baselines
        assert not said
        return
    assert "bag of vectors" not in {*finished.baselines, *finished.test_baselines}
    (text,) = said
    assert text.startswith("The baseline bag of vectors diverged, and is left out of the comparison: training diverged")
    assert "holds NaN" in text


@pytest.mark.parametrize(("seconds", "text"), [(0.2, "1 s"), (41.7, "42 s"), (99.9, "100 s"), (192.4, "3 min")])
def test_times_are_round(seconds: float, text: str) -> None:
    assert describe_seconds(seconds) == text


def test_several_processes_have_no_baselines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "text.txt").write_text("abac" * 200)
    monkeypatch.setattr("unspool.learning.ranks.Ranks.together", True)
    monkeypatch.setattr("unspool.learning.ranks.Ranks.broadcast", lambda _, values: values)
    with pytest.raises(ArgumentError, match="`baselines`"):
        unspool.train(tmp_path / "text.txt", out=tmp_path / "run", baselines=True, steps=1)
    assert not (tmp_path / "run").exists()
