"""Rivals: what they are, that they learn in the same way, and what a language model without memory can know."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from tests.tasks.labelled_texts import ordered_texts, write_table

import unspool
from unspool.errors import ArgumentError
from unspool.learning.events import Advised, Event
from unspool.tasks.rivals import rivals_of
from unspool.tasks.train import plan


def test_what_is_about_memory_is_left_out(tmp_path: Path) -> None:
    table = write_table(tmp_path / "order.csv", ordered_texts(20))
    settings = plan(table, layers=2, hidden=9, zoneout=0.1, supervision=0.3, dropout="auto", learn="bptt", rate=0.1)
    found = rivals_of(settings)
    assert set(found) == {"bag of vectors", "shared FCN, summed", "1-D convolution"}
    for rival in found.values():
        assert (rival.model.zoneout, rival.model.supervision, rival.model.dropout) == (0.0, 0.0, 0.0)
        assert (rival.model.hidden, rival.training.rate) == (9, 0.1)


def test_a_language_model_without_memory_knows_pairs_alone(tmp_path: Path) -> None:
    """In "abac…" what follows a is b or c in turn: log 2 every second step without memory, nothing with it."""
    (tmp_path / "turns.txt").write_text("abac" * 2000)
    settings: dict[str, Any] = {"hidden": 16, "steps": 150, "batch": 8, "window": 16, "rate": 0.02}
    run = unspool.train(tmp_path / "turns.txt", out=tmp_path / "run", baselines=True, **settings)
    rival = run.finished.baselines["stateless MLP"]
    assert rival["loss"] == pytest.approx(math.log(2) / 2, abs=0.01)
    assert run.finished.validation["loss"] < 0.05
    events: list[Event] = []
    unspool.train(out=tmp_path / "run", resume=True, tell=events.append)
    said = [event.text for event in events if isinstance(event, Advised)]
    assert said == ["The model is trained. Now those without memory are, to compare."]  # and not that nothing is left


def test_several_processes_have_no_rivals(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "text.txt").write_text("abac" * 200)
    monkeypatch.setattr("unspool.learning.ranks.Ranks.together", True)
    with pytest.raises(ArgumentError, match="`baselines`"):
        unspool.train(tmp_path / "text.txt", out=tmp_path / "run", baselines=True, steps=1)
    assert not (tmp_path / "run").exists()
