"""Keeps the workers of a cluster on this machine: one that is killed while it starts is not started again by Dask."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from distributed import Client

#: Seconds between two looks at the workers.
PERIOD = 3.0


@contextmanager
def keeping_workers(client: Client) -> Iterator[None]:
    """Inside, a cluster that the client has started itself gets as many workers as it had, whatever ends them.

    Args:
        client: The cluster; one at an address is left to who started it.
    """
    cluster = client.cluster
    if cluster is None or not hasattr(cluster, "worker_spec"):
        yield
        return
    wanted, ended = len(cluster.worker_spec), threading.Event()

    def keep() -> None:
        while not ended.wait(PERIOD):
            if len(cluster.workers) < wanted:
                cluster.scale(wanted)

    thread = threading.Thread(target=keep, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
