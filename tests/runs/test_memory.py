"""Models that are too large for the machine's memory: one error, before anything is allocated or in torch's place."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from tests.cli.calling import call
from tests.runs.tiny_run import LINES

from unspool.errors import TrainingError
from unspool.models.catalogue import make_learner
from unspool.nn.checks import ADDRESSES, machine_memory
from unspool.runs import memory
from unspool.runs.fitting import prepare_task
from unspool.runs.memory import check_memory, count_bytes, explaining_memory
from unspool.runs.train import plan


@pytest.fixture
def text(tmp_path: Path, own_cache: None) -> Path:
    file = tmp_path / "text.txt"
    file.write_text(LINES * 12, encoding="utf-8")
    return file


def test_a_model_beyond_the_memory_of_the_machine_is_refused_in_one_line(
    text: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call("train", text, "--steps", 3, "--hidden", 1_000_000, "--out", text.with_name("run")) == 1
    said = " ".join(capsys.readouterr().err.split())
    assert "error: the weights of a model of --hidden (=1000000) and their gradients need" in said
    assert "and this machine has" in said
    assert "Traceback" not in said
    assert not text.with_name("run").exists()


def test_bytes_are_those_of_the_real_model(text: Path) -> None:
    settings, task = prepare_task(plan(text, hidden=24, embedding=5))
    real = make_learner(task, settings.model)
    assert count_bytes(task, settings) == 2 * sum(one.nbytes for one in real.parameters())


def test_what_fits_is_not_refused(text: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "SMALL", 8)
    settings, task = prepare_task(plan(text, hidden=16))
    check_memory(task, settings)
    monkeypatch.setattr(memory, "machine_memory", lambda: count_bytes(task, settings) - 1)
    with pytest.raises(TrainingError, match=r"`hidden` \(=16\)"):
        check_memory(task, settings)
    monkeypatch.setattr(memory, "machine_memory", lambda: ADDRESSES)  # where the system does not tell
    check_memory(task, settings)


def test_an_allocation_that_fails_is_explained_and_other_errors_stay(text: Path) -> None:
    settings, task = prepare_task(plan(text, hidden=16))
    with pytest.raises(TrainingError, match="memory ran out"), explaining_memory(task, settings):
        torch.empty(1 << 60)
    with pytest.raises(TrainingError, match="memory ran out"), explaining_memory(task, settings):
        raise MemoryError
    with pytest.raises(RuntimeError, match="something else"), explaining_memory(task, settings):
        raise RuntimeError("something else")


def test_the_memory_of_this_machine_is_plausible() -> None:
    found = machine_memory()
    assert found == ADDRESSES or 1 << 28 < found < 1 << 50
