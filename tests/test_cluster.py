"""Connecting to a cluster: what runs there, and one clear error for each thing that can be wrong with it."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

import unspool
from unspool import cluster
from unspool.errors import ArgumentError

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
