"""Sweeps with trials that are trained: here and on workers, to the same bits; resumed; and what is refused."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from functools import partial
from pathlib import Path
from typing import Any

import distributed
import psutil
import pytest
from tests.sweeps.made_up import InThisProcess

import unspool
from unspool.cluster import connect
from unspool.errors import ArgumentError
from unspool.sweeps import engines
from unspool.sweeps import sweep as sweep_module
from unspool.sweeps.course import Row
from unspool.sweeps.folder import SweepFolder, take
from unspool.sweeps.searching import Told
from unspool.sweeps.sweep import Swept, sweep
from unspool.sweeps.trial import Order, run_trial

OPTIONS: dict[str, Any] = {
    "task": "classify",
    "engine": "torch",
    "steps": 4,
    "eval_every": 2,
    "batch_size": 8,
    "quiet": True,
}
SEARCH = "lr,hidden=2..6,cell=elman|lstm"


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Texts whose first word is their label."""
    path = tmp_path_factory.mktemp("data") / "tiny.csv"
    rows = (f"{first} {second} x,{first}" for first in ("a", "b") for second in "cdefghijklmnopqrstuvw")
    path.write_text("text,label\n" + "\n".join(rows) + "\n")
    return path


def run(data: Path | None, out: Path, trials: int = 3, **more: Any) -> Swept:
    """A sweep of random trials that are all trained to the end."""
    return sweep(data, out=out, trials=trials, sampler="random", prune=False, search=SEARCH, **{**OPTIONS, **more})


@pytest.fixture(scope="module")
def serial(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Swept:
    """Three trials, one after the other."""
    with in_this_process():
        return run(data, tmp_path_factory.mktemp("sweeps") / "serial", hidden=4)


@contextmanager
def in_this_process() -> Iterator[None]:
    """A context in which sweeps start no processes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sweep_module, "open_engine", lambda *_: nullcontext(InThisProcess()))
        yield


def outcome(row: Row) -> tuple[Any, ...]:
    """What must be the same wherever a trial is trained."""
    return row.number, row.state, row.settings, row.validation, row.course.curve("loss"), row.value


def test_trials_are_ordinary_runs_and_the_best_is_kept(serial: Swept, data: Path, tmp_path: Path) -> None:
    assert [row.state for row in serial.trials] == ["finished"] * 3
    assert serial.best is not None
    assert serial.best.value == max(row.value or 0.0 for row in serial.trials)
    plain = unspool.train(data, out=tmp_path / "plain", hidden=4, **OPTIONS)
    assert serial.trials[0].validation == plain.finished.validation
    assert serial.run == serial.path / "best"
    assert serial.run is not None
    of_trial, of_best = (unspool.load(str(run)).predict(["a c x"]) for run in (serial.best.folder, serial.run))
    assert of_best == of_trial
    assert (serial.path / "sweep.html").stat().st_size > 100_000


def test_a_finished_trial_is_not_trained_again(serial: Swept) -> None:
    before = {path: path.stat().st_mtime_ns for path in serial.path.glob("trials/*/*")}
    answer = run_trial(Order(str(serial.path), 1, serial.trials[1].settings))
    assert answer.finished is not None
    assert answer.finished["validation"] == serial.trials[1].validation
    assert {path: path.stat().st_mtime_ns for path in serial.path.glob("trials/*/*")} == before


def test_workers_of_a_cluster_give_the_same_and_a_resumed_sweep_goes_on(
    serial: Swept, data: Path, tmp_path: Path
) -> None:
    with distributed.Client(processes=False, n_workers=1, threads_per_worker=1, dashboard_address=None) as client:
        first = run(data, tmp_path / "s", trials=2, hidden=4, dask=client.scheduler.address)
    assert [*map(outcome, first.trials)] == [*map(outcome, serial.trials[:2])]
    with in_this_process():
        whole = sweep(tmp_path / "s", resume=True, trials=3, quiet=True)
    assert [*map(outcome, whole.trials)] == [*map(outcome, serial.trials)]


@pytest.mark.long
def test_workers_in_processes_give_the_same(serial: Swept, data: Path, tmp_path: Path) -> None:
    first = run(data, tmp_path / "s", trials=2, hidden=4, dask="local:2")
    assert [*map(outcome, first.trials)] == [*map(outcome, serial.trials[:2])]
    whole = sweep(tmp_path / "s", resume=True, trials=3, jobs=1, quiet=True)
    assert [*map(outcome, whole.trials)] == [*map(outcome, serial.trials)]


def test_a_sweep_that_another_process_runs_is_in_use(serial: Swept) -> None:
    lock = take(SweepFolder(serial.path))
    try:
        with pytest.raises(ArgumentError, match=r"`out` .* is in use: another process runs this sweep\. Wait for it"):
            sweep(serial.path, resume=True, quiet=True)
    finally:
        lock.release()


def test_another_search_is_not_resumed(serial: Swept, data: Path) -> None:
    with pytest.raises(ArgumentError, match=r"`search` \(='lr'\) is not what the sweep was started with, lr,hidden"):
        sweep(data, out=serial.path, resume=True, search="lr", quiet=True)
    with pytest.raises(ArgumentError, match="has a sweep. Give another, or resume it"):
        sweep(data, out=serial.path, quiet=True)


@pytest.mark.parametrize(
    ("search", "said"),
    [
        ("lr,hiden", r"`search` \(='hiden'\) is not known\. Did you mean `hidden`\?"),
        ("learning_rate", r"Did you mean `lr`\?"),
        ("validation", "is a setting of the data, and trials are compared on the same data"),
        ("horizon", "is a setting of forecast, and the task is classify"),
        ("seed=0..9", "does not make trials better"),
        ("dropout=0..2", r"`search` \(='dropout=2'\) has a value that cannot be used: .*less than 1"),
        ("cell=lstm|grue", "has a value that cannot be used"),
        ("bptt", r"has no values to search .*'bptt=1\.\.4'"),
    ],
)
def test_what_cannot_be_searched_is_refused_before_anything_is_trained(
    data: Path, tmp_path: Path, search: str, said: str
) -> None:
    with pytest.raises(ArgumentError, match=said):
        sweep(data, out=tmp_path / "s", search=search, **OPTIONS)
    assert not (tmp_path / "s" / "sweep.json").exists()
    assert not list(tmp_path.glob("s/trials/*"))


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"trials": 0}, "`trials` .*above 0"),
        ({"jobs": 0}, "`jobs` .*above 0"),
        ({"minutes": -1.0}, "`minutes` .*above 0"),
        ({"sampler": "tpee"}, "`sampler` .*Did you mean 'tpe'"),
        ({"dask": "local:x"}, "`dask` .*no address of a cluster"),
    ],
)
def test_what_cannot_be_meant_is_refused(data: Path, tmp_path: Path, given: dict[str, Any], said: str) -> None:
    with pytest.raises(ArgumentError, match=said):
        sweep(data, out=tmp_path / "s", **given)
    assert not (tmp_path / "s").exists()


def test_no_cluster_at_the_address(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engines, "connect", partial(connect, timeout=0.3))
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        address = f"tcp://127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(ArgumentError, match="has no cluster that answers"):
            sweep(data, out=tmp_path / "s", dask=address, **OPTIONS)
    assert not (tmp_path / "s").exists()


class Killer:
    """A listener that kills processes three times, each time in the middle of the training of another trial.

    Args:
        all_of_them: Whether it kills all workers, so that none is left to take over, or that of the trial.
    """

    def __init__(self, all_of_them: bool) -> None:
        self._all = all_of_them
        self.killed: list[int] = []  # the trials

    def __call__(self, told: Told) -> None:
        for row in told.sweep.rows:
            due = row.state == "running" and 0.2 < row.course.fraction < 0.8 and row.number not in self.killed
            if due and len(self.killed) < 3 and (process := find_process(row.folder)):
                for one in find_workers() if self._all else [process]:
                    os.kill(one, signal.SIGKILL)
                self.killed.append(row.number)


def find_workers() -> list[int]:
    """The workers of a Dask cluster that this process has started."""
    children = psutil.Process().children(recursive=True)
    return [one.pid for one in children if "spawn_main" in " ".join(one.cmdline())]


def find_process(run: Path) -> int | None:
    """The process that trains a run: it has the lock's file open."""
    for one in psutil.Process().children(recursive=True):
        with suppress(psutil.Error):
            if any(file.path == str(run.absolute() / ".lock") for file in one.open_files()):
                return int(one.pid)
    return None


@pytest.mark.long
@pytest.mark.parametrize("where", [{"dask": "local:2"}, {"jobs": 2}], ids=str)
def test_killed_workers_lose_nothing_and_do_nothing_twice(data: Path, tmp_path: Path, where: dict[str, Any]) -> None:
    longer = {"steps": 100, "eval_every": 10, "checkpoint_every": 10, "hidden": 4}
    expected = run(data, tmp_path / "serial", trials=4, jobs=1, **longer)
    killer = Killer(all_of_them="dask" in where)
    found = run(data, tmp_path / "killed", trials=4, tell=killer, **where, **longer)
    assert len(killer.killed) == 3
    assert [*map(outcome, found.trials)] == [*map(outcome, expected.trials)]
    for row in found.trials:
        assert (row.folder / "metrics.jsonl").read_text().count('"finished"') == 1
        assert len(row.course.evaluated) == 10
