"""Processes of one command start together, hear each request to stop once, and leave none behind; and train so."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.cli.calling import refused
from tests.learning.small_runs import outcome, write_text

from unspool.cli import processes
from unspool.cli.processes import Together

#: What each process does: `rank` is its own, `folder` is shared.
OPENING = """
import os, pathlib, signal, sys, time
rank, folder = int(os.environ["RANK"]), pathlib.Path(sys.argv[1])
"""
SLEEP = "(folder / f'ready-{rank}').touch(); time.sleep(60)"
LISTEN = """
def hear(number, frame):
    with (folder / f"heard-{rank}").open("a") as file:
        file.write(signal.Signals(number).name)
    if len(sys.argv) < 3:
        sys.exit(130)
for number in (signal.SIGINT, signal.SIGTERM):
    signal.signal(number, hear)
"""


def run(folder: Path, code: str, *more: str, count: int = 2) -> int:
    return Together([sys.executable, "-S", "-c", OPENING + code, str(folder), *more], count).run()


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "GRACE", 0.3)


@pytest.fixture
def send() -> Iterator[Callable[[Path, list[int]], None]]:
    """Sends signals to this very process, half a second apart, when its two processes are ready."""
    threads = []

    def begin(folder: Path, numbers: list[int]) -> None:
        def act() -> None:
            while len(list(folder.glob("ready-*"))) < 2:
                time.sleep(0.02)
            for number in numbers:
                os.kill(os.getpid(), number)
                time.sleep(0.5)

        threads.append(threading.Thread(target=act))
        threads[-1].start()

    yield begin
    for thread in threads:
        thread.join()


@pytest.mark.parametrize(("code", "expected"), [(0, 0), (1, 1), (2, 2), (130, 130)])
def test_the_exit_code_is_the_first_ones(tmp_path: Path, code: int, expected: int) -> None:
    assert run(tmp_path, f"sys.exit({code} if rank == 0 else {min(code, 1)})") == expected


@pytest.mark.parametrize(("said", "expected"), [(None, "2"), ("5", "5")])
def test_cores_are_divided(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str | None, expected: str) -> None:
    monkeypatch.setattr(torch, "get_num_threads", lambda: 6)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    if said is not None:
        monkeypatch.setenv("OMP_NUM_THREADS", said)
    names = ["WORLD_SIZE", "LOCAL_RANK", "OMP_NUM_THREADS"]
    code = f"(folder / str(rank)).write_text(' '.join(os.environ[name] for name in {names}))"
    assert run(tmp_path, code, count=3) == 0
    for rank in range(3):
        assert (tmp_path / str(rank)).read_text() == f"3 {rank} {expected}"


@pytest.mark.usefixtures("hurried")
def test_none_stays_when_one_fails(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    begun = time.monotonic()
    assert run(tmp_path, f"if rank == 1: sys.exit(2)\n{SLEEP}") == 1
    assert run(tmp_path, f"if rank == 0: sys.exit(2)\n{SLEEP}") == 2
    assert capfd.readouterr().err == ""
    assert run(tmp_path, f"if rank == 1: os.kill(os.getpid(), 9)\n{SLEEP}") == 1
    assert capfd.readouterr().err == "error: process 1 of 2 was ended by SIGKILL\n"
    assert time.monotonic() - begun < 30


@pytest.mark.usefixtures("hurried")
def test_one_that_does_not_listen_is_ended(tmp_path: Path) -> None:
    assert run(tmp_path, f"{LISTEN}\nif rank == 1: sys.exit(1)\n{SLEEP}", "stubborn") == 1
    assert (tmp_path / "heard-0").read_text() == "SIGTERM" * 2


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_request_to_stop_is_heard_once(
    tmp_path: Path, send: Callable[[Path, list[int]], None], number: signal.Signals
) -> None:
    send(tmp_path, [number])
    assert run(tmp_path, f"{LISTEN}\n{SLEEP}") == 130
    assert [(tmp_path / f"heard-{rank}").read_text() for rank in range(2)] == ["SIGTERM"] * 2
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.usefixtures("hurried")
def test_who_asks_twice_need_not_wait(tmp_path: Path, send: Callable[[Path, list[int]], None]) -> None:
    begun = time.monotonic()
    send(tmp_path, [signal.SIGINT, signal.SIGINT])
    assert run(tmp_path, f"{LISTEN}\n{SLEEP}", "stubborn") == 130
    assert time.monotonic() - begun < 30


def test_processes_that_do_not_listen_yet_stop_without_a_word(
    tmp_path: Path, send: Callable[[Path, list[int]], None], capfd: pytest.CaptureFixture[str]
) -> None:
    send(tmp_path, [signal.SIGINT])
    assert run(tmp_path, SLEEP) == 130
    assert capfd.readouterr() == ("", "")


# ── the command line ──

OPTIONS = ["--hidden", "8", "--batch-size", "4", "--bptt", "8", "--engine", "torch", "--dropout", "0.2", "--json"]
TOGETHER = [sys.executable, "-m", "unspool", "train"]
TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
TORCHRUN += ["-m", "unspool", "train"]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a text, to work in."""
    monkeypatch.setenv("UNSPOOL_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    write_text(tmp_path)
    return tmp_path


def command(*words: str) -> tuple[int, list[dict[str, Any]], str]:
    """The exit code, the events told and what else was said."""
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=300)
    return done.returncode, [json.loads(line) for line in done.stdout.splitlines()], done.stderr


def test_two_processes_make_one_run(place: Path) -> None:
    code, events, said = command(*TOGETHER, "text.txt", "--nproc", "2", "--steps", "4", *OPTIONS)
    assert (code, said) == (0, "")
    kinds = [event["event"] for event in events]
    assert (kinds[0], kinds[-1]) == ("started", "finished")
    assert kinds.count("started") == kinds.count("finished") == 1
    assert "2 processes" in events[0]["plan"]["training"]
    assert [path.name for path in (place / "runs").iterdir()] == ["text"]
    assert outcome(place / "runs" / "text")["position"].startswith("{'step': 4,")


@pytest.mark.long
def test_torchrun_makes_one_run(place: Path) -> None:
    code, events, said = command(*TORCHRUN, "text.txt", "--steps", "4", *OPTIONS)
    assert (code, said.replace("\n", "")) == (0, "") or ("OMP_NUM_THREADS" in said and code == 0)
    assert [event["event"] for event in events].count("started") == 1
    assert [path.name for path in (place / "runs").iterdir()] == ["text"]
    assert command(*TOGETHER, "text.txt", "--nproc", "2", "--steps", "4", *OPTIONS)[0] == 0
    assert outcome(place / "runs" / "text") == outcome(place / "runs" / "text-2")


@pytest.mark.long
def test_mistakes_are_said_once(place: Path) -> None:
    assert command(*TOGETHER, "text.txt", "--out", "run", "--nproc", "2", "--steps", "2", *OPTIONS)[0] == 0
    for words, expected, message in [
        (["text.txt", "--nproc", "3", *OPTIONS], 2, "--batch-size (=4) does not divide among 3 processes"),
        (["missing.txt", "--nproc", "2"], 2, "there is no file missing.txt"),
        (["text.txt", "--nproc", "2", "--hidden", "-1"], 2, "--hidden (=-1)"),
        (["text.txt", "--nproc", "2", "--bptt", "10000"], 2, "--bptt (=10000) is longer"),
        (["text.txt", "--nproc", "2", "--out", "run"], 2, "--out (='run') exists"),
        (["run", "--resume", "--nproc", "4"], 2, "--nproc (=4) differs from the run's 2"),
        (["run", "--resume"], 2, "--nproc (=1) differs from the run's 2"),
        (["--resume", "--nproc", "2"], 2, "FILE (=None) is missing"),
        (["text.txt", "--nproc", "2", "--lr", "1e30", "--set", "clip=1e9", *OPTIONS], 1, "training diverged at step"),
    ]:
        code, _, said = command(*TOGETHER, *words)
        assert code == expected, words
        assert said.startswith(f"error: {message}"), said
        assert said.count("\n") == 1, said
    code, _, said = command(*TORCHRUN, "missing.txt")  # which has much to say itself
    assert code == 1
    assert said.count("error: there is no file missing.txt") == 1


def start(*words: str) -> subprocess.Popen[str]:
    return subprocess.Popen([*TOGETHER, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def wait_for(process: subprocess.Popen[str], kind: str, step: int) -> None:
    assert process.stdout is not None
    for line in process.stdout:
        event = json.loads(line)
        if event["event"] == kind and event["step"] >= step:
            return
    raise AssertionError(f"there was no {kind}")


def processes_of(process: subprocess.Popen[str]) -> list[int]:
    """The processes that it started, in their order."""
    found = subprocess.run(["ps", "-o", "pid=", "--ppid", str(process.pid)], capture_output=True, text=True, check=True)
    return sorted(int(word) for word in found.stdout.split())


def is_there(number: int) -> bool:
    try:
        os.kill(number, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.long
def test_a_run_in_two_processes_survives(place: Path) -> None:
    """Ctrl-C, the end of one process, the end of both, and that of the one that started them: the same bits."""
    told = [*OPTIONS, "--eval-every", "500", "--set", "checkpoint_every=10"]
    settings = ["--nproc", "2", "--steps", "2000", *told]
    assert command(*TOGETHER, "text.txt", "--out", "whole", *settings)[0] == 0
    resume, step = ["broken", "--resume", "--nproc", "2", "--json"], 100
    for end in ("interrupted", "one killed", "both killed", "starter killed"):
        process = start(*(["text.txt", "--out", "broken", *settings] if step == 100 else resume))
        wait_for(process, "saved", step)
        workers = processes_of(process)
        assert len(workers) == 2
        if end == "interrupted":
            process.send_signal(signal.SIGINT)
        for worker in {"one killed": workers[1:], "both killed": workers}.get(end, []):
            os.kill(worker, signal.SIGKILL)
        if end == "starter killed":
            process.kill()
        out, said = process.communicate(timeout=100)
        assert process.returncode == {"interrupted": 130, "starter killed": -9}.get(end, 1)
        assert (said == "") == (end in ("interrupted", "starter killed"))
        if end in ("interrupted", "starter killed"):
            assert json.loads(out.splitlines()[-1])["reason"] == "interrupted"
        deadline = time.monotonic() + 30
        while any(is_there(worker) for worker in workers) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert not any(is_there(worker) for worker in workers)
        step += 300
    code, _, said = command(*TOGETHER, *resume)
    assert (code, said) == (0, "")
    assert outcome(place / "broken") == outcome(place / "whole")


def test_restarts_need_resume(place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("TORCHELASTIC_MAX_RESTARTS", "3")
    said = refused(capsys, "train", "text.txt", "--out", "broken")
    assert said.startswith("error: --resume (=False) is missing, and torchrun may start the processes again")
    assert not (place / "broken").exists()


@pytest.mark.long
def test_torchrun_goes_on_when_processes_die(place: Path) -> None:
    """Two deaths, of either rank, and the bits of an unbroken run."""
    settings = ["--steps", "300", *OPTIONS, "--eval-every", "100", "--set", "checkpoint_every=10"]
    assert command(*TORCHRUN, "text.txt", "--out", "whole", *settings)[0] == 0
    again = [*TORCHRUN[:-3], "--max-restarts=3", *TORCHRUN[-3:], "text.txt", "--out", "broken", *settings, "--resume"]
    process = subprocess.Popen(again, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        for step, rank in ((60, 1), (160, 0)):
            wait_for(process, "saved", step)
            os.kill(processes_of(process)[rank], signal.SIGKILL)
        out = process.communicate(timeout=200)[0]
    finally:
        process.kill()
    assert process.returncode == 0
    assert json.loads(out.splitlines()[-1])["event"] == "finished"
    assert outcome(place / "broken") == outcome(place / "whole")
