"""Connecting to a cluster: what runs there, and one clear error for each thing that can be wrong with it."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Iterator
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

import unspool
from unspool import cluster
from unspool.errors import ArgumentError, ClusterError

if TYPE_CHECKING:
    from distributed import Client

pytest.importorskip("distributed")


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    """Two workers, each a process, for all tests of this file."""
    with cluster.connect("local:2") as found:
        yield found


def address_of(client: Client) -> str:
    """Where the scheduler of a client's cluster listens."""
    return str(client.scheduler_info()["address"])


def claim_version(version: str) -> None:
    """Make a worker's unspool say that it is another version."""
    unspool.__version__ = version


def test_local_workers_are_processes_of_one_thread(client: Client) -> None:
    workers = client.scheduler_info(n_workers=-1)["workers"].values()
    assert [worker["nthreads"] for worker in workers] == [1, 1]
    processes = client.run(os.getpid).values()
    assert len({os.getpid(), *processes}) == 3


def test_work_runs_on_the_workers(client: Client) -> None:
    assert client.submit(divmod, 17, 5).result() == (3, 2)


def test_the_cluster_is_also_reached_by_its_address(client: Client) -> None:
    with cluster.connect(address_of(client)) as second:
        assert second.submit(abs, -3).result() == 3
    assert client.submit(abs, -4).result() == 4  # it goes on without the second client


def test_another_version_on_a_worker_is_refused(client: Client) -> None:
    worker = next(iter(client.scheduler_info(n_workers=-1)["workers"]))
    client.run(claim_version, "0.0.7", workers=[worker])
    try:
        refused = pytest.raises(ArgumentError, match=r"0\.0\.7; here it is .*Install the same version everywhere\.$")
        with refused, cluster.connect(address_of(client)):
            pass
    finally:
        client.run(claim_version, unspool.__version__, workers=[worker])


def test_a_worker_without_unspool_is_refused() -> None:
    answers = {"tcp://a:1": unspool.__version__, "tcp://b:2": ModuleNotFoundError("No module named 'unspool'")}
    with pytest.raises(ArgumentError, match="tcp://b:2, with no unspool, or another version; here it is"):
        cluster.check_versions("tcp://c:3", answers)


def test_no_cluster_at_the_address() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # nobody listens there, and nobody else can
        address = f"tcp://127.0.0.1:{taken.getsockname()[1]}"
        refused = pytest.raises(ArgumentError, match=r"`dask` .*has no cluster that answers within 0\.3 s")
        with refused, cluster.connect(address, timeout=0.3):
            pass


@pytest.mark.parametrize("address", ["local", "local:0", "local:1000000", "here", "http://a:1", "tcp://a", "", "a b:1"])
def test_what_is_no_address_is_refused_before_anything_is_started(address: str) -> None:
    with pytest.raises(ArgumentError, match="`dask` .*Give local:2 for two processes"):
        cluster.check_address(address)


@pytest.mark.parametrize("address", ["tcp://10.0.0.1:8786", "scheduler:8786", "tls://a.b.c:1", "tcp://127.0.0.1:9/"])
def test_addresses_of_schedulers(address: str) -> None:
    assert cluster.check_address(address) == 0


# ── workers that end ──


def kill_workers(client: Client) -> int:
    """Kill all workers of a local cluster; how many there were, some of which may still have been starting."""
    pids = [nanny.pid for nanny in client.cluster.workers.values() if nanny.pid]  # type: ignore[union-attr]
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    return len(pids)


def test_killed_workers_come_back(client: Client) -> None:
    """All are killed, and again as soon as one of them answers: the other is starting then, which Dask gives up."""
    for number in range(2):
        assert kill_workers(client) > 0
        assert client.submit(abs, -number, pure=False).result(timeout=100) == number


@pytest.mark.long
def test_workers_that_are_killed_again_and_again_come_back(client: Client) -> None:
    for number in range(6):
        kill_workers(client)
        client.submit(abs, -number, pure=False).result(timeout=100)
    client.wait_for_workers(2, timeout=100)


class MadeUpCluster:
    """Workers in a state, and how many there should be."""

    def __init__(self, *states: str) -> None:
        self.workers = {
            number: SimpleNamespace(status=SimpleNamespace(name=each)) for number, each in enumerate(states)
        }
        self.worker_spec = dict.fromkeys(range(2))
        self.asked: list[int] = []

    def scale(self, count: int) -> None:
        self.asked.append(count)


@pytest.mark.parametrize(
    ("states", "left", "asked"),
    [
        (("running", "running"), [0, 1], []),
        (("running", "starting"), [0, 1], []),
        (("running",), [0], [2]),
        (("closed", "running"), [1], [2]),
        (("failed", "closed"), [], [2]),
    ],
)
def test_workers_that_ended_for_good_are_replaced(states: tuple[str, ...], left: list[int], asked: list[int]) -> None:
    found = MadeUpCluster(*states)
    cluster.replace_workers(found)
    assert (list(found.workers), found.asked) == (left, asked)


class MadeUpClient:
    """A client of a cluster with so many workers."""

    def __init__(self, workers: int, status: str = "running") -> None:
        self.workers, self.status = workers, status

    def scheduler_info(self, n_workers: int) -> dict[str, Any]:
        return {"workers": dict.fromkeys(range(self.workers))}


def test_a_cluster_without_workers_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    client: Any = MadeUpClient(2)
    attendance = cluster.Attendance(client, "All is kept.")
    assert attendance.count() == 2
    client.workers = 0
    assert attendance.count() == 0  # for now
    monkeypatch.setattr(cluster, "DESERTED", 0.0)
    with pytest.raises(ClusterError, match=r"^the cluster has had no worker for 0 s\. All is kept\.$"):
        attendance.count()


def test_a_cluster_that_is_gone_is_given_up() -> None:
    client: Any = MadeUpClient(2, "closed")
    with pytest.raises(ClusterError, match=r"^the connection to the cluster is lost\. All is kept\.$"):
        cluster.Attendance(client, "All is kept.").count()
