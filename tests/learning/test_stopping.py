"""Runs that are asked to stop, by Ctrl-C or a request to terminate, save first, and resume to the same bits."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import pytest
from tests.learning.small_runs import OPTIONS, SAMPLE, assert_whole, begin_or_resume, outcome, pipe, start, write_text

from unspool.errors import ArgumentError
from unspool.learning.events import Event
from unspool.learning.run_folder import RunFolder
from unspool.learning.stopping import listening
from unspool.runs.train import train
from unspool.tasks import lm as language_model

STEPS: dict[str, Any] = {"steps": 24, "eval_every": 12, "checkpoint_every": 5}


@pytest.fixture(autouse=True)
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNSPOOL_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(language_model, "SAMPLE", SAMPLE)


def step_of(run: Path) -> int:
    """The step of a run's newest checkpoint."""
    found = RunFolder(run).read_checkpoint()
    assert found is not None
    return int(found.facts["position"]["step"])


def assert_resumes_to_the_same_bits(text: Path, run: Path) -> None:
    """The run is whole, and resumed it comes to what a run without a stop comes to."""
    assert_whole(run)
    begin_or_resume(text, run)
    whole = run.parent / "whole"
    train(text, out=whole, **OPTIONS | STEPS)
    assert outcome(run) == outcome(whole)


# ── the command ──


def test_ctrl_c_ends_the_command_by_130_and_resume_comes_to_the_same_bits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(language_model, "SAMPLE", 300)
    text, run = write_text(tmp_path), tmp_path / "run"
    options = OPTIONS | {"steps": 120, "eval_every": 60, "checkpoint_every": 1}
    settings = [f"--set={name}={value}" for name, value in options.items()]
    command = [sys.executable, "-m", "unspool", "train", str(text), "--out", str(run), "--json", *settings]
    # A pipe that nobody reads is soon full, and the run waits: it cannot be over when the signal comes.
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, preexec_fn=hear_interrupts) as process:
        assert process.stdout is not None
        fcntl.fcntl(process.stdout, fcntl.F_SETPIPE_SZ, 4096)
        said = [json.loads(process.stdout.readline()) for _ in range(4)]
        process.send_signal(signal.SIGINT)
        said += [json.loads(line) for line in process.stdout]
    assert process.returncode == 130
    assert (said[-1]["event"], said[-1]["reason"]) == ("finished", "interrupted")
    assert 0 < step_of(run) == said[-1]["step"] < 120
    train(out=run, resume=True)
    train(text, out=tmp_path / "whole", **options)
    assert outcome(run) == outcome(tmp_path / "whole")


def hear_interrupts() -> None:
    """A job in the background would ignore them, and hand that on."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


# ── a run that waits to be released ──


def train_step_by_step(text: Path, run: Path, listener: Any) -> None:
    hear_interrupts()

    def tell(event: Event) -> None:
        listener.send(event.as_json())
        listener.recv()

    try:
        begin_or_resume(text, run, tell, **STEPS)
    except KeyboardInterrupt:
        sys.exit(99)


@contextmanager
def held(text: Path, run: Path, kind: str, step: int) -> Iterator[tuple[BaseProcess, Any]]:
    """A run in another process, held at an event; `release` lets it run."""
    ours, theirs = pipe()
    process = start(train_step_by_step, text, run, theirs)
    theirs.close()
    try:
        while (event := ours.recv())["event"] != kind or event["step"] != step:
            ours.send(None)
        yield process, ours
    finally:
        process.kill()
        process.join()


def release(connection: Any) -> list[dict[str, Any]]:
    """Let a run continue to its end; what it reports."""
    said = []
    try:
        while True:
            connection.send(None)
            said.append(connection.recv())
    except (EOFError, BrokenPipeError, ConnectionResetError):
        return said


def send(process: BaseProcess, number: int) -> None:
    """Send a signal, and give the process, which waits, the time to take it down: two at once would count as one."""
    assert process.pid is not None
    os.kill(process.pid, number)
    time.sleep(0.2)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_run_that_is_asked_to_stop_saves_and_resumes_to_the_same_bits(tmp_path: Path, number: int) -> None:
    text, run = write_text(tmp_path), tmp_path / "run"
    with held(text, run, "saved", 5) as (process, connection):
        send(process, number)
        said = release(connection)
        process.join()
        assert process.exitcode == 0
    assert (said[-1]["event"], said[-1]["reason"]) == ("finished", "interrupted")
    assert step_of(run) == said[-1]["step"] == 6  # the update that is being made is finished
    assert_resumes_to_the_same_bits(text, run)


def test_a_run_that_is_asked_twice_ends_at_once_with_its_last_checkpoint(tmp_path: Path) -> None:
    text, run = write_text(tmp_path), tmp_path / "run"
    with held(text, run, "evaluated", 12) as (process, _):
        send(process, signal.SIGINT)
        send(process, signal.SIGINT)
        process.join()
        assert process.exitcode == 99
    assert step_of(run) == 10
    assert_resumes_to_the_same_bits(text, run)


def test_a_run_that_has_saved_its_end_does_not_wait_for_the_last_metrics(tmp_path: Path) -> None:
    text, run = write_text(tmp_path), tmp_path / "run"
    with held(text, run, "finished", 24) as (process, _):
        send(process, signal.SIGINT)
        process.join()
        assert process.exitcode == 99
    assert step_of(run) == 24


def test_a_folder_is_one_process_s_at_a_time(tmp_path: Path) -> None:
    text, run = write_text(tmp_path), tmp_path / "run"
    with held(text, run, "saved", 5) as (process, connection):
        before = sorted(run.rglob("*"))
        with pytest.raises(ArgumentError, match="is being trained by another process"):
            train(out=run, resume=True)
        with pytest.raises(ArgumentError, match="is being trained by another process"):
            train(text, out=run, overwrite=True, **OPTIONS | STEPS)
        assert sorted(run.rglob("*")) == before
        release(connection)
        process.join()
        assert process.exitcode == 0
    train(out=run, resume=True)  # the lock ends with the process


# ── listening ──


def test_the_first_signal_is_taken_down_the_second_obeyed_and_the_old_handlers_come_back() -> None:
    def handler(*_: Any) -> None: ...

    before = signal.signal(signal.SIGTERM, handler)
    try:
        with listening() as stop:
            seen = [stop.asked]
            signal.raise_signal(signal.SIGTERM)
            assert [*seen, stop.asked] == [False, True]
            with pytest.raises(KeyboardInterrupt):
                signal.raise_signal(signal.SIGTERM)
        assert signal.getsignal(signal.SIGTERM) is handler
    finally:
        signal.signal(signal.SIGTERM, before)


def test_a_signal_that_is_ignored_stays_ignored() -> None:
    before = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        with listening() as stop:
            signal.raise_signal(signal.SIGTERM)
            assert not stop.asked
    finally:
        signal.signal(signal.SIGTERM, before)
