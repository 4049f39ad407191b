"""Baselines: what they are, that they are trained in the same way, and what a model without memory can know."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from tests.tasks.labelled_texts import ordered_texts, write_table

import unspool
from unspool.errors import ArgumentError
from unspool.learning.events import Advised, Event
from unspool.runs.baselines import baselines_of
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
    assert said == ["The model is trained. Training baselines without memory for comparison."]


def test_several_processes_have_no_baselines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "text.txt").write_text("abac" * 200)
    monkeypatch.setattr("unspool.learning.ranks.Ranks.together", True)
    with pytest.raises(ArgumentError, match="`baselines`"):
        unspool.train(tmp_path / "text.txt", out=tmp_path / "run", baselines=True, steps=1)
    assert not (tmp_path / "run").exists()
