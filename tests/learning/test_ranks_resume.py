"""Processes that train together stop and go on as one, to the same bits."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.learning import watched_disk
from tests.learning.several_processes import run_training, summary, together
from tests.learning.small_runs import OPTIONS, outcome, write_text

from unspool.errors import ArgumentError, OthersFailedError
from unspool.learning import optimizers as optimizers
from unspool.learning import run_folder
from unspool.learning.files import write_tensors
from unspool.learning.loop import Loop
from unspool.learning.run_folder import RunFolder
from unspool.runs.train import train

#: Nothing is drawn by chance, so that rows come to the same wherever they are.
CALM: dict[str, Any] = OPTIONS | {"dropout": 0.0, "average": None, "eval_every": 4, "clip": 0.05}
#: Everything that a checkpoint must hold.
NOISY: dict[str, Any] = OPTIONS | {"steps": 12, "eval_every": 6, "checkpoint_every": 2, "grad_accum": 2}


@pytest.fixture(scope="module", autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("UNSPOOL_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


def stop_at(step: int, number: int, ranks: str, text: Path | None, run: Path, options: dict[str, Any]) -> Any:
    """The processes in `ranks` get the signal when they have made so many updates."""
    update = Loop._update

    def hit(self: Loop, *given: Any) -> None:
        if self.position.step == step and str(self.ranks.rank) in ranks:
            os.kill(os.getpid(), number)
        update(self, *given)

    pytest.MonkeyPatch().setattr(Loop, "_update", hit)  # for the rest of this process
    return run_training(text, run, options)


@pytest.mark.parametrize(
    ("count", "options"),
    [
        (2, {}),
        (3, {"batch_size": 6, "hidden": 40, "optimizer": "sgd", "momentum": 0.9}),
        pytest.param(2, {"engine": "kernel", "zoneout": 0.1, "optimizer": "adamw"}, marks=pytest.mark.long),
    ],
)
def test_runs_that_are_stopped_go_on_bit_for_bit(tmp_path: Path, count: int, options: dict[str, Any]) -> None:
    text, whole, broken = write_text(tmp_path), tmp_path / "whole", tmp_path / "broken"
    given = NOISY | options
    done = together(tmp_path, count, run_training, text, whole, given)
    begin = given | {"resume": True}  # there is no run yet, and all must agree on that
    found = together(tmp_path, count, stop_at, 3, signal.SIGINT, "1", text, broken, begin)
    assert [one["reason"] for one in found] == ["interrupted"] * count
    assert [one["step"] for one in found] == [4] * count
    assert together(tmp_path, count, stop_at, 7, signal.SIGKILL, "012", None, broken, {}) == [None] * count
    found = together(tmp_path, count, run_training, None, broken, {})
    assert [one["step"] for one in found] == [12] * count
    for ours, theirs in zip(done, found, strict=True):
        assert all(torch.equal(ours["weights"][name], weight) for name, weight in theirs["weights"].items())
    assert outcome(broken) == outcome(whole)

    (alone,) = together(tmp_path, 1, run_training, None, broken, {})
    assert type(alone) is ArgumentError
    assert f"`nproc` (=1) differs from the run's {count}. Give `nproc={count}`" in str(alone)


def begin_or_resume(text: Path, run: Path, options: dict[str, Any], dies_at: int = -1) -> Any:
    """What torchrun starts again and again; the first process may die in the middle of a checkpoint."""

    def write_half(path: Path, *content: Any) -> None:
        dies = path.name == f"step-{dies_at:09d}.safetensors"
        with watched_disk.watched(run, 1 if dies else 0, watched_disk.die):
            write_tensors(path, *content)

    pytest.MonkeyPatch().setattr(run_folder, "write_tensors", write_half)  # for the rest of this process
    return summary(train(text, out=run, resume=True, **options))


@pytest.mark.long
def test_a_death_while_saving_loses_the_work_since_the_last_checkpoint(tmp_path: Path) -> None:
    text, whole, broken = write_text(tmp_path), tmp_path / "whole", tmp_path / "broken"
    together(tmp_path, 2, run_training, text, whole, NOISY)
    first, second = together(tmp_path, 2, begin_or_resume, text, broken, NOISY, 8)
    assert first is None
    assert type(second) is OthersFailedError
    (half,) = (broken / "checkpoints").glob(".step-000000008*")
    assert half.stat().st_size > 0
    left = RunFolder(broken).read_checkpoint()
    assert left is not None
    assert left.facts["position"]["step"] == 6
    found = together(tmp_path, 2, begin_or_resume, text, broken, NOISY)
    assert [one["step"] for one in found] == [12, 12]
    assert outcome(broken) == outcome(whole)
    assert not half.exists()


def test_several_go_on_to_a_later_end(tmp_path: Path) -> None:
    text, whole, run = write_text(tmp_path), tmp_path / "whole", tmp_path / "run"
    level = NOISY | {"schedule": "constant", "warmup": 0}
    together(tmp_path, 2, run_training, text, whole, level)
    together(tmp_path, 2, run_training, text, run, level | {"steps": 6})
    first, second = together(tmp_path, 2, run_training, None, run, {"steps": 5})
    assert type(first) is ArgumentError
    assert "`steps` (=5) has been reached already" in str(first)
    assert type(second) is OthersFailedError
    found = together(tmp_path, 2, run_training, None, run, {"steps": 12})
    assert [one["step"] for one in found] == [12, 12]
    one, other = outcome(run), outcome(whole)
    assert all(one[part] == other[part] for part in ("tensors", "position", "optimizer", "best", "samples"))
