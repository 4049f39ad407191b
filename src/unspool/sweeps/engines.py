"""Where trials are computed: in processes of this machine, or on the workers of a Dask cluster."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, Protocol

from unspool.cluster import Attendance, connect
from unspool.runs.worker_process import WorkerDiedError, WorkerProcess
from unspool.runtime.run_player import count_cores
from unspool.sweeps.trial import Answer, Order, run_trial

#: What the error of a lost cluster ends with.
KEPT = "Everything that was trained is kept. Resume the sweep with `resume=True`."
#: The module that a process runs.
WORKER = "unspool.sweeps.worker"


class Ahead(Protocol):
    """An answer that is still to come."""

    def done(self) -> bool: ...

    def result(self) -> Any: ...


class Engine(Protocol):
    """Computes trials, several at a time."""

    def count(self) -> int:
        """How many trials it can compute at a time, now."""

    def submit(self, order: Order) -> Ahead:
        """Have a trial computed; what is ahead raises where its process died."""


class Processes:
    """Processes on this machine, each of which computes trials one after the other, with one thread."""

    def __init__(self, jobs: int) -> None:
        self._jobs = jobs
        self._pool = ThreadPoolExecutor(jobs, thread_name_prefix="unspool-sweep")
        self._own = threading.local()
        self._all: list[WorkerProcess] = []

    def count(self) -> int:
        """One per process."""
        return self._jobs

    def submit(self, order: Order) -> Ahead:
        """Have a process compute a trial; one that has died is replaced before the next trial."""
        return self._pool.submit(self._compute, order)

    def _compute(self, order: Order) -> Answer:
        worker = self._worker()
        for found in worker.ask(order.as_json()):
            return Answer(**found)
        raise WorkerDiedError(worker.last_words())

    def _worker(self) -> WorkerProcess:
        """The process of this thread."""
        found: WorkerProcess | None = getattr(self._own, "worker", None)
        if found is None or found.process.poll() is not None:
            found = self._own.worker = WorkerProcess(WORKER, threads=1)
            self._all.append(found)
        return found

    def close(self) -> None:
        """End all processes; trials that they were computing can be resumed."""
        for worker in self._all:
            worker.kill()
        self._pool.shutdown(wait=True, cancel_futures=True)
        for worker in self._all:
            worker.__exit__(None, None, None)


class OnDask:
    """The workers of a Dask cluster. They must see the sweep's folder and the data by the same names."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self._attendance = Attendance(client, KEPT)

    def count(self) -> int:
        """One per worker process, as a process computes one trial at a time; refused where there was none for long."""
        return max(1, self._attendance.count())

    def submit(self, order: Order) -> Ahead:
        """Have a worker compute a trial; Dask gives it to another one if that dies."""
        future: Ahead = self._client.submit(run_trial, order, pure=False)
        return future


@contextmanager
def open_engine(jobs: int | None, dask: str | None) -> Iterator[Engine]:
    """Processes, by default one per core, or the workers of the cluster at an address."""
    if dask is not None:
        with connect(dask) as client:
            yield OnDask(client)
        return
    processes = Processes(jobs or count_cores())
    try:
        yield processes
    finally:
        processes.close()
