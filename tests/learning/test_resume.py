"""Runs that are killed, or out of disk space, resume to the same bits as a run that was never interrupted."""

from __future__ import annotations

import random
import resource
import signal
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from tests.learning.small_runs import (
    OPTIONS,
    SAMPLE,
    assert_whole,
    begin_or_resume,
    outcome,
    run_elsewhere,
    start,
    write_text,
)
from tests.learning.watched_disk import die, fail, slow, watched

from unspool.errors import StorageError
from unspool.learning.events import Event, Saved
from unspool.learning.lock import LOCK_NAME
from unspool.learning.run_folder import RunFolder
from unspool.runs.train import train
from unspool.tasks import lm as language_model

#: A run that saves a dozen times; and one by kernels, with every kind of noise and a mean that begins late.
KILLED: dict[str, Any] = {"steps": 60, "eval_every": 20, "checkpoint_every": 6}
NOISY = KILLED | {
    **{
        "engine": "kernel",
        "zoneout": 0.1,
        "weight_dropout": 0.1,
        "recurrent_dropout": 0.1,
        "variational_dropout": True,
    },
    **{"average": "swa", "tied": True, "optimizer": "sgd", "momentum": 0.9, "lr": 0.1, "grad_accum": 2},
    **{"teacher_forcing": "linear", "schedule": "plateau", "save_total_limit": 1, "cell": "gru"},
}


@pytest.fixture(autouse=True)
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNSPOOL_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(language_model, "SAMPLE", SAMPLE)


def train_slowly(text: Path, run: Path, options: dict[str, Any]) -> None:
    with slow(0.01):
        begin_or_resume(text, run, **options)


def finish(text: Path, run: Path, options: dict[str, Any]) -> None:
    begin_or_resume(text, run, **options)


def die_while_saving(text: Path, run: Path, options: dict[str, Any], at: int) -> None:
    with watched(run, at, die):
        begin_or_resume(text, run, **options)


def checkpoint_names(run: Path) -> list[str]:
    return [path.name for path in RunFolder(run).checkpoints()]


def kill_and_resume(folder: Path, number: int, options: dict[str, Any], seconds: float) -> tuple[Path, int]:
    """A run that is killed while it saves, and at any moment, and resumed to its end; and how often it was."""
    chance = random.Random(number)
    text, run, kills = folder / "text.txt", folder / f"run-{number}", 0
    for saving in chance.sample([True, False], 2):
        if saving:
            at = chance.randint(1, 8 if run.exists() else 60)
            code = run_elsewhere(die_while_saving, text, run, options, at)
        else:
            process = start(train_slowly, text, run, options)
            time.sleep(chance.uniform(0, seconds))
            process.kill()
            process.join()
            code = process.exitcode or 0
        assert code in (0, -signal.SIGKILL)  # 0: it was faster
        kills += code != 0
    assert run_elsewhere(finish, text, run, options) == 0
    return run, kills


@pytest.mark.parametrize(
    ("options", "numbers"),
    [
        pytest.param(KILLED, range(3), id="3"),
        pytest.param(KILLED, range(3, 18), id="15", marks=pytest.mark.long),
        pytest.param(NOISY, range(18, 33), id="15 with all kinds of noise", marks=pytest.mark.long),
    ],
)
def test_killed_runs_end_with_the_bits_of_the_unbroken_one(
    tmp_path: Path, options: dict[str, Any], numbers: range, monkeypatch: pytest.MonkeyPatch
) -> None:
    if options is NOISY:
        monkeypatch.delenv("UNSPOOL_CACHE")  # kernels are there already
    text, whole = write_text(tmp_path), tmp_path / "whole"
    run_elsewhere(finish, text, tmp_path / "warm", options | {"steps": 2})  # torch is read, kernels are built
    begun = time.monotonic()
    assert run_elsewhere(train_slowly, text, whole, options) == 0
    seconds = time.monotonic() - begun
    expected = outcome(whole)
    assert expected["evaluated"][-1]["step"] == 60
    kills = 0
    for number in numbers:
        run, times = kill_and_resume(tmp_path, number, options, seconds)
        kills += times
        assert outcome(run) == expected, f"run {number}"
        assert checkpoint_names(run) == checkpoint_names(whole)
        assert_whole(run)
    assert kills > len(numbers)


# ── a full disk ──

FULL: dict[str, Any] = {"steps": 4, "eval_every": 2, "checkpoint_every": 2}


def requests(text: Path, run: Path) -> list[str]:
    with watched(run, 0, fail) as asked:
        train(text, out=run, **OPTIONS | FULL)
    return asked


def test_what_a_killed_process_left_half_written_is_removed(tmp_path: Path) -> None:
    text, run = write_text(tmp_path), tmp_path / "run"
    writes = [at for at, kind in enumerate(requests(text, tmp_path / "whole"), 1) if kind == "write"]
    assert run_elsewhere(die_while_saving, text, run, FULL, writes[3]) == -signal.SIGKILL
    (left,) = (path for path in run.rglob(".*") if path.is_file() and path.name != LOCK_NAME)
    assert left.stat().st_size > 0
    RunFolder.open(run).close()
    assert_whole(run)


def test_a_disk_that_is_full_at_any_write_loses_no_checkpoint(tmp_path: Path) -> None:
    text = write_text(tmp_path)
    asked = requests(text, tmp_path / "whole")
    expected = outcome(tmp_path / "whole")
    assert min(asked.count(kind) for kind in ("mkdir", "fsync", "write", "replace")) > 1
    for number in range(1, len(asked) + 1):
        run, saved = tmp_path / f"run-{number}", [-1]

        def note(event: Event, saved: list[int] = saved) -> None:
            if isinstance(event, Saved):
                saved.append(event.step)

        with watched(run, number, fail) as again, pytest.raises(StorageError, match="No space left on device"):
            train(text, out=run, tell=note, **OPTIONS | FULL)
        assert again[number - 1] == asked[number - 1]
        if run.exists():
            assert_whole(run)
            found = RunFolder(run).read_checkpoint()
            assert (-1 if found is None else found.facts["position"]["step"]) >= saved[-1]
        begin_or_resume(text, run, **FULL)
        assert outcome(run) == expected, f"{asked[number - 1]}, request {number}"


def test_a_file_that_outgrows_its_limit_is_not_left_half_written(tmp_path: Path) -> None:
    """A failure of the system's own, in the middle of a write: no file may have more than 16 kB."""
    text, run = write_text(tmp_path), tmp_path / "run"
    assert run_elsewhere(train_within_limit, text, run, FULL, 1 << 14) == 3
    assert_whole(run)
    assert (run / "config.toml").exists()
    begin_or_resume(text, run)
    train(text, out=tmp_path / "whole", **OPTIONS | FULL)
    assert outcome(run) == outcome(tmp_path / "whole")


def train_within_limit(text: Path, run: Path, options: dict[str, Any], limit: int) -> None:
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    try:
        begin_or_resume(text, run, **options)
    except StorageError as error:
        sys.exit(3 if "File too large" in str(error) else 4)
