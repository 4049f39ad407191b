"""Predictions on a cluster: the bytes of one process, also where workers are killed; without torch."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest
from tests.partitions.small_data import make_run, read_all, write_partitions

from unspool import cluster
from unspool.cluster import connect
from unspool.errors import ClusterError
from unspool.partitions import predict as module
from unspool.partitions.predict import Options, distribute, predict_partitions
from unspool.partitions.work import Outcome

distributed = pytest.importorskip("distributed")


def test_a_cluster_gives_the_bytes_of_one_process(tmp_path: Path) -> None:
    """More partitions than are handed out ahead, and one that cannot be read."""
    run, data = make_run(tmp_path), write_partitions(tmp_path / "data", 7, 50)
    (data / "part-003.parquet").write_bytes(b"PAR1 and then nothing")
    alone = predict_partitions(run, [data], tmp_path / "alone")
    with distributed.Client(processes=False, n_workers=1, threads_per_worker=1, dashboard_address=None) as client:
        address = client.scheduler.address
        summary = predict_partitions(run, [data], tmp_path / "out", dask=address)
        again = predict_partitions(run, [data], tmp_path / "out", dask=address)
    assert (summary.rows, summary.kept, len(summary.failed)) == (300, 0, 1)
    assert (again.rows, again.kept) == (300, 6)
    assert summary.failed[0].problem == alone.failed[0].problem
    assert read_all(tmp_path / "out") == read_all(tmp_path / "alone")


def test_a_cluster_that_loses_its_workers_is_given_up_and_the_same_call_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, data = make_run(tmp_path), write_partitions(tmp_path / "data", 7, 50)
    monkeypatch.setattr(module, "LOOK", 0.05)
    monkeypatch.setattr(cluster, "DESERTED", 0.2)
    with distributed.Client(processes=False, n_workers=1, threads_per_worker=1, dashboard_address=None) as client:

        def lose_workers(outcome: Outcome, number: int, of: int) -> None:
            client.cluster.scale(0)

        with pytest.raises(ClusterError, match="no worker for 0 s. Files that are finished are kept. Run the same"):
            predict_partitions(run, [data], tmp_path / "out", dask=client.scheduler.address, tell=lose_workers)
    alone = predict_partitions(run, [data], tmp_path / "alone")
    rest = predict_partitions(run, [data], tmp_path / "out")
    assert 0 < rest.kept < alone.files
    assert read_all(tmp_path / "out") == read_all(tmp_path / "alone")


def test_a_cluster_that_ends_is_given_up(tmp_path: Path) -> None:
    run, data = make_run(tmp_path), write_partitions(tmp_path / "data", 7, 50)
    with distributed.Client(processes=False, n_workers=1, threads_per_worker=1, dashboard_address=None) as client:

        def end(outcome: Outcome, number: int, of: int) -> None:
            client.cluster.close()

        with pytest.raises(ClusterError, match="the connection to the cluster is lost. Files that are finished"):
            predict_partitions(run, [data], tmp_path / "out", dask=client.scheduler.address, tell=end)


@pytest.mark.long
def test_killed_workers_change_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers are killed while each of them has a partition: others take it over, and it is there once."""
    run, data = make_run(tmp_path), write_partitions(tmp_path / "data", 8, 3000)
    (data / "part-003.parquet").write_bytes(b"PAR1 and then nothing")
    alone = predict_partitions(run, [data], tmp_path / "alone")
    told: list[str] = []
    torch: list[bool] = []

    def kill_some(jobs, dask):  # type: ignore[no-untyped-def]
        with connect(dask) as client:
            for number, outcome in enumerate(distribute(jobs, client)):
                told.append(outcome.source)
                if number in (0, 2, 4):  # one, and twice all
                    assert client.cluster is not None
                    for nanny in list(client.cluster.workers.values())[: 1 + number]:
                        if nanny.pid:
                            os.kill(nanny.pid, signal.SIGKILL)
                yield outcome
            # not a function of this module, which imports torch
            torch.extend(client.run(lambda: "torch" in sys.modules, on_error="ignore").values())

    monkeypatch.setattr(module, "_work", kill_some)
    summary = predict_partitions(run, [data], tmp_path / "out", Options(), dask="local:2")
    assert read_all(tmp_path / "out") == read_all(tmp_path / "alone")
    assert sorted(told) == sorted(str(path) for path in data.iterdir())
    assert (summary.rows, len(summary.failed)) == (21_000, 1)
    assert summary.failed[0].problem == alone.failed[0].problem
    assert torch
    assert not any(torch)
