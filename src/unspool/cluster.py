"""Connect to a Dask cluster: one that this process starts on this machine, or one at an address."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import unspool
from unspool.errors import ArgumentError, MissingPackageError

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

    settings = {"distributed.scheduler.allowed-failures": ATTEMPTS}
    with dask.config.set(settings), _quiet(), _cluster_of(LocalCluster, count) as cluster, Client(cluster) as client:
        yield client


def _cluster_of(kind: Any, count: int) -> Any:
    """Workers without limits on memory: Dask would kill a worker for memory that is not Dask's."""
    return kind(
        n_workers=count,
        threads_per_worker=1,
        processes=True,
        dashboard_address=None,
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
        remedy = "Start workers there: dask worker ADDRESS --nthreads 1"
        raise ArgumentError.of("dask", address, "is a cluster without workers", remedy) from error
    check_versions(address, client.run(installed_version, on_error="return"))


def check_versions(address: str, found: Mapping[str, Any]) -> None:
    """Refuse a cluster unless all workers answered with this version; what else they answered is an exception."""
    for worker, version in found.items():
        if version != unspool.__version__:
            has = f"unspool {version}" if isinstance(version, str) else "no unspool, or another version"
            problem = f"has a worker, {worker}, with {has}; here it is {unspool.__version__}"
            raise ArgumentError.of("dask", address, problem, "Install the same version everywhere")
