"""A sweep's course with trials that are never trained: what is started, ended early, started again, and kept."""

from __future__ import annotations

import itertools
from concurrent.futures import CancelledError, Future
from pathlib import Path
from typing import Any

import pytest
from tests.sweeps.made_up import BASE, Scripted, evaluated, finished, log, make_plan, make_study

from unspool import cluster
from unspool.errors import ClusterError, StorageError
from unspool.learning.stopping import Stop
from unspool.runs.worker_process import WorkerDiedError
from unspool.sweeps import searching
from unspool.sweeps.engines import OnDask
from unspool.sweeps.folder import SweepFolder
from unspool.sweeps.searching import Searching, Told
from unspool.sweeps.trial import Answer, Order


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(searching, "PAUSE", 0.0)


def run_of(order: Order) -> Path:
    return SweepFolder(Path(order.sweep)).trial(order.number)


def finish(order: Order, times: int) -> Answer:
    """A trial that reaches more the higher its number is."""
    accuracy = order.number / 100
    log(run_of(order), evaluated(1, accuracy), finished(accuracy))
    return Answer(finished(accuracy))


def sweep(path: Path, engine: Scripted, trials: int = 4, stop: Stop | None = None, **more: Any) -> Searching:
    folder = SweepFolder(path)
    told: list[Told] = more.pop("told", [])
    plan = make_plan(trials, more.pop("prune", False))
    return Searching(folder, plan, make_study(folder), engine, told.append, stop or Stop(), **more)


def test_trials_run_to_the_end_and_the_first_has_the_settings_of_a_plain_run(tmp_path: Path) -> None:
    engine, told = Scripted(finish, jobs=2), list[Told]()
    searched = sweep(tmp_path, engine, told=told)
    assert searched.run() == "done"
    found = searched.snapshot()
    assert [row.state for row in found.rows] == ["finished"] * 4
    assert found.rows[0].settings == BASE
    assert found.best is not None
    assert found.best.number == 3
    assert engine.orders[0].settings == {}  # the shared config has them
    assert set(engine.orders[1].settings) <= set(BASE)
    assert [one.kind for one in told if one.kind != "moved"] == ["began", *["trial"] * 8]


def test_a_trial_whose_process_died_is_started_again_with_the_same_settings(tmp_path: Path) -> None:
    def die_twice(order: Order, times: int) -> Answer | Exception:
        return WorkerDiedError("gone") if order.number == 1 and times < 3 else finish(order, times)

    engine = Scripted(die_twice)
    searched = sweep(tmp_path, engine)
    searched.run()
    assert [order.number for order in engine.orders] == [0, 1, 1, 1, 2, 3]
    assert engine.orders[1] == engine.orders[2] == engine.orders[3]
    assert [row.state for row in searched.snapshot().rows] == ["finished"] * 4


def test_a_trial_that_kills_every_process_fails_and_the_others_go_on(tmp_path: Path) -> None:
    def die(order: Order, times: int) -> Answer | Exception:
        return WorkerDiedError("out of memory") if order.number == 1 else finish(order, times)

    searched = sweep(tmp_path, Scripted(die))
    searched.run()
    rows = searched.snapshot().rows
    assert [row.state for row in rows] == ["finished", "failed", "finished", "finished"]
    assert rows[1].problem == "its process died 5 times: out of memory"


def test_a_problem_of_a_trial_is_kept_and_it_is_not_tried_again(tmp_path: Path) -> None:
    def diverge(order: Order, times: int) -> Answer:
        return Answer(problem="training diverged at step 7") if order.number == 2 else finish(order, times)

    sweep(tmp_path, Scripted(diverge)).run()
    engine = Scripted(diverge)
    again = sweep(tmp_path, engine, trials=5)
    again.run()
    assert [order.number for order in engine.orders] == [4]
    assert again.snapshot().rows[2].problem == "training diverged at step 7"


def test_a_full_disk_ends_the_sweep_and_nothing_counts_as_failed(tmp_path: Path) -> None:
    def full(order: Order, times: int) -> Answer:
        return Answer(fatal="no room") if order.number == 1 else finish(order, times)

    with pytest.raises(StorageError, match="no room"):
        sweep(tmp_path, Scripted(full)).run()
    engine = Scripted(finish)
    again = sweep(tmp_path, engine)
    assert again.run() == "done"
    assert [order.number for order in engine.orders] == [1, 2, 3]


def test_who_falls_behind_is_ended_early(tmp_path: Path) -> None:
    def fall_behind(order: Order, times: int) -> Answer | None:
        accuracy = 0.1 if order.number == 6 else 0.8 + order.number / 100
        log(run_of(order), *(evaluated(number, accuracy) for number in range(1, 4)))
        return None if order.number == 6 else Answer(finished(accuracy))

    searched = sweep(tmp_path, Scripted(fall_behind), trials=8, prune=True)
    assert searched.run() == "done"
    rows = searched.snapshot().rows
    assert [row.state for row in rows] == [*["finished"] * 6, "pruned", "finished"]
    assert rows[6].value == 0.1
    assert [one.state.name for one in make_study(SweepFolder(tmp_path)).trials()][6] == "PRUNED"


def test_a_sweep_that_is_asked_to_stop_keeps_its_trials_and_is_resumed(tmp_path: Path) -> None:
    stop, orders = Stop(), itertools.count(1)

    def go_on(order: Order, times: int) -> Answer | None:
        log(run_of(order), evaluated(1, 0.5))
        stop.asked = next(orders) == 3
        return finish(order, times) if order.number == 0 else None

    first = sweep(tmp_path, Scripted(go_on, jobs=2), stop=stop)
    assert first.run() == "interrupted"
    assert [row.state for row in first.snapshot().rows] == ["finished", "stopped", "stopped"]
    before = [row.settings for row in first.snapshot().rows]
    engine = Scripted(finish)
    again = sweep(tmp_path, engine)
    assert [row.state for row in again.snapshot().rows] == ["finished", "stopped", "stopped"]
    assert again.run() == "done"
    assert [order.number for order in engine.orders] == [1, 2, 3]
    assert [row.settings for row in again.snapshot().rows][:3] == before
    assert not (tmp_path / "stops").exists()


def test_time_is_up(tmp_path: Path) -> None:
    searched = sweep(tmp_path, Scripted(lambda order, times: None, jobs=2), minutes=1e-4)
    assert searched.run() == "minutes"
    assert [row.state for row in searched.snapshot().rows] == ["stopped", "stopped"]


class Deserted:
    """A client of a Dask cluster whose workers are gone: nothing that is handed in is ever done."""

    status = "running"

    def scheduler_info(self, n_workers: int) -> dict[str, Any]:
        return {"workers": {}}

    def submit(self, function: Any, order: Order, pure: bool) -> Future[Answer]:
        return Future()


@pytest.mark.parametrize("asked", [False, True])
def test_a_cluster_without_workers_ends_the_sweep_which_can_be_resumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked: bool
) -> None:
    """Also one that has been asked to stop does not wait for trials that nobody computes."""
    stop = Stop()

    def tell(told: Told) -> None:
        stop.asked = asked and told.kind == "moved"
        monkeypatch.setattr(cluster, "DESERTED", 0.0 if told.kind == "moved" else 60.0)

    folder = SweepFolder(tmp_path)
    searched = Searching(folder, make_plan(4), make_study(folder), OnDask(Deserted()), tell, stop)
    with pytest.raises(ClusterError, match=r"no worker for 0 s\. Everything that was trained is kept\. Resume the"):
        searched.run()
    again = sweep(tmp_path, Scripted(finish))
    assert again.run() == "done"
    assert [row.state for row in again.snapshot().rows] == ["finished"] * 4


def test_a_lost_connection_ends_the_sweep_which_can_be_resumed(tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match="connection to the cluster is lost. Everything that was trained is kept"):
        sweep(tmp_path, Scripted(lambda order, times: CancelledError("lost"))).run()
    again = sweep(tmp_path, Scripted(finish))
    assert again.run() == "done"
    assert [row.state for row in again.snapshot().rows] == ["finished"] * 4
