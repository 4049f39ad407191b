"""Connect to a Dask cluster: one that this process starts on this machine, or one at an address."""

from __future__ import annotations

import logging
import re
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import unspool
from unspool.errors import ArgumentError, ClusterError, MissingPackageError

if TYPE_CHECKING:
    from distributed import Client

#: Workers on this machine: local:2.
LOCAL = re.compile(r"local:([0-9]+)")
#: An address as Dask prints it: tcp://10.0.0.1:8786. The protocol may be left out.
ADDRESS = re.compile(r"(?:(?:tcp|tls|ws|wss|ucx|inproc)://)?[^\s/:]+:[0-9]+/?|inproc://\S+")
FORMS = "Give local:2 for two processes on this machine, or the address of a scheduler, such as tcp://10.0.0.1:8786"
MOST_LOCAL = 512
#: How often the task of a worker that died is given to another worker before it counts as failed.
ATTEMPTS = 20
#: Seconds without any worker after which a cluster is given up.
DESERTED = 120.0
#: Seconds in which a worker on this machine may start again before it is replaced. Dask's own 15 are too few where all
#: cores are busy, and Dask puts no other in its place.
LOST = 60.0
#: Seconds between two looks at the workers on this machine.
PERIOD = 2.0
#: Seconds in which workers on this machine have to end.
CLOSING = 60.0


@contextmanager
def connect(address: str, timeout: float = 10.0) -> Iterator[Client]:
    """Connect to a cluster whose workers have this version of unspool.

    Args:
        address: `local:2` starts a cluster of two worker processes, of one thread each, that ends with the context.
            Anything else is the address of a scheduler, such as `tcp://10.0.0.1:8786`.
        timeout: Seconds to wait for a scheduler and for its first worker.

    Returns:
        A context manager that gives a `distributed.Client`.

    Raises:
        ArgumentError: Nothing answers at the address, the cluster has no workers, or workers have another version.

    Example:
        with connect("local:2") as client:
            print(client.submit(sum, [1, 2]).result())
    """
    local = check_address(address)
    with MissingPackageError.explaining("A cluster"):
        import distributed  # noqa: F401 (named here, so that what is missing is explained)
    with _start(local) if local else _reach(address, timeout) as client:
        _check_workers(address, client, timeout)
        yield client


def check_address(address: str) -> int:
    """The number of workers to start on this machine, or 0 if the address is a scheduler's; refuse anything else."""
    if found := LOCAL.fullmatch(address):
        count = int(found[1])
        if not 1 <= count <= MOST_LOCAL:
            raise ArgumentError.of("dask", address, f"is not 1 to {MOST_LOCAL} workers", FORMS)
        return count
    if not ADDRESS.fullmatch(address):
        raise ArgumentError.of("dask", address, "is no address of a cluster", FORMS)
    return 0


@contextmanager
def _start(count: int) -> Iterator[Client]:
    """A cluster of processes on this machine."""
    import dask
    from distributed import Client, LocalCluster

    settings = {"distributed.scheduler.allowed-failures": ATTEMPTS, "distributed.deploy.lost-worker-timeout": LOST}
    with dask.config.set(settings), _quiet():
        cluster = _cluster_of(LocalCluster, count)
        try:
            with Client(cluster) as client, _keeping_workers(cluster):
                yield client
        finally:
            with suppress(TimeoutError):  # they end with this process at the latest
                cluster.close(timeout=CLOSING)


@contextmanager
def _keeping_workers(cluster: Any) -> Iterator[None]:
    """Inside, a cluster has as many workers as it had, whatever ends them.

    Dask starts a worker again that was killed, but not one that was killed while it started.
    """
    ended = threading.Event()

    def keep() -> None:
        while not ended.wait(PERIOD):
            cluster.loop.add_callback(replace_workers, cluster)

    thread = threading.Thread(target=keep, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def replace_workers(cluster: Any) -> None:
    """Start as many workers as have ended for good; in the thread of the cluster, which changes the same list.

    Args:
        cluster: A `distributed.LocalCluster`.
    """
    for name, worker in list(cluster.workers.items()):
        if worker.status.name in ("closed", "failed"):
            del cluster.workers[name]
    if len(cluster.workers) < len(cluster.worker_spec):
        cluster.scale(len(cluster.worker_spec))


def _cluster_of(kind: Any, count: int) -> Any:
    """Workers without limits on memory: Dask would kill a worker for memory that is not Dask's."""
    return kind(
        n_workers=count,
        threads_per_worker=1,
        processes=True,
        dashboard_address="127.0.0.1:0",  # by default it takes a fixed port, which another cluster may have
        memory_limit=None,
        silence_logs=logging.CRITICAL,
    )


@contextmanager
def _quiet() -> Iterator[None]:
    """Inside, Dask's log is silent: it reports workers that come and go at length, and who uses them does so too."""
    logger = logging.getLogger("distributed")
    before = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(before)


@contextmanager
def _reach(address: str, timeout: float) -> Iterator[Client]:
    """A client of the scheduler at an address."""
    from distributed import Client

    with _quiet():
        try:
            client = Client(address, timeout=timeout)
        except (OSError, ValueError, RuntimeError) as error:
            raise ArgumentError.of(
                "dask", address, f"has no cluster that answers within {timeout:g} s", f"Start one there. {FORMS}"
            ) from error
        with client:
            yield client


def installed_version() -> str:
    """The version of unspool in this process."""
    return unspool.__version__


def _check_workers(address: str, client: Client, timeout: float) -> None:
    try:
        client.wait_for_workers(1, timeout=timeout)
    except TimeoutError as error:
        remedy = "Start workers there, of one thread each"
        raise ArgumentError.of("dask", address, "is a cluster without workers", remedy) from error
    check_versions(address, client.run(installed_version, on_error="return"))


def check_versions(address: str, found: Mapping[str, Any]) -> None:
    """Refuse a cluster unless all workers answered with this version; what else they answered is an exception."""
    for worker, version in found.items():
        if version != unspool.__version__:
            has = f"unspool {version}" if isinstance(version, str) else "no unspool, or another version"
            problem = f"has a worker, {worker}, with {has}; here it is {unspool.__version__}"
            raise ArgumentError.of("dask", address, problem, "Install the same version everywhere")


class Attendance:
    """Watches the workers of a cluster, so that nobody waits for one that has none.

    Args:
        client: The cluster.
        kept: What is kept, and how to continue, in one or two sentences: the end of each error.
    """

    def __init__(self, client: Client, kept: str) -> None:
        self._client, self._kept = client, kept
        self._seen = time.monotonic()  # when there was a worker

    def count(self) -> int:
        """How many workers there are now.

        Raises:
            ClusterError: There has been none for `DESERTED` seconds, or the scheduler is gone.
        """
        if self._client.status == "closed":
            raise self.lost()
        found = len(self._client.scheduler_info(n_workers=-1)["workers"])
        if found:
            self._seen = time.monotonic()
        elif time.monotonic() - self._seen > DESERTED:
            raise ClusterError(f"the cluster has had no worker for {DESERTED:.0f} s. {self._kept}")
        return found

    def lost(self) -> ClusterError:
        """What to raise where the scheduler is gone."""
        return ClusterError(f"the connection to the cluster is lost. {self._kept}")
