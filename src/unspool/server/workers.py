"""Several processes that serve one address: uvicorn starts them, restarts one that dies, and ends them all together."""

from __future__ import annotations

import asyncio
import logging
import multiprocessing
import os
import signal
import socket
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn import Config
from uvicorn.config import STARTUP_FAILURE
from uvicorn.supervisors.multiprocess import Multiprocess

from unspool.errors import UnspoolError
from unspool.server.app import make_app
from unspool.server.logs import log_to_stderr
from unspool.server.process import quiet_garbage_collection, steady_allocation
from unspool.server.service import Service
from unspool.server.settings import ServeSettings

#: Seconds between two looks at whether the process that started the workers is still there.
LOOK = 1.0
#: Seconds after which a worker that does not answer its parent is killed; a busy machine needs some to start one.
HUNG = 30
log = logging.getLogger("unspool.server")


@dataclass(frozen=True)
class Worker:
    """Makes the app in the process of a worker, to which this is sent through a pipe: no argument has a secret."""

    runs: Sequence[str | Path]
    settings: ServeSettings
    version: str

    def __call__(self) -> ASGIApp:
        log_to_stderr()
        steady_allocation()
        try:
            service = Service.load(self.runs, self.settings)
        except Exception:
            log.exception("a worker cannot start")
            sys.exit(STARTUP_FAILURE)  # the others would fail in the same way
        app = make_app(service, self.version)
        quiet_garbage_collection()
        return partial(_with_parent, app)


async def _with_parent(app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
    """The app; its lifespan also ends when the process that started the worker is gone."""
    if scope["type"] != "lifespan":
        await app(scope, receive, send)
        return
    watching = asyncio.create_task(_watch_parent())
    try:
        await app(scope, receive, send)
    finally:
        watching.cancel()


async def _watch_parent() -> None:
    parent = multiprocessing.parent_process()
    while parent is not None and parent.is_alive():
        await asyncio.sleep(LOOK)
    if parent is not None:
        os.kill(os.getpid(), signal.SIGTERM)


def run_workers(worker: Worker, listening: socket.socket, options: dict[str, Any]) -> None:
    """Serve until SIGTERM or SIGINT, which every worker gets: each answers what it has begun.

    Args:
        worker: Makes the apps.
        listening: The socket from which all workers accept connections.
        options: More arguments of uvicorn's configuration.

    Raises:
        UnspoolError: A worker cannot start.
    """
    count = worker.settings.workers
    threads = worker.settings.threads or max(1, (os.cpu_count() or 1) // count)
    own = replace(worker, settings=replace(worker.settings, threads=threads))
    config = Config(own, factory=True, workers=count, timeout_worker_healthcheck=HUNG, **options)
    supervisor = Multiprocess(config, sockets=[listening])
    supervisor.run()
    if any(one.exitcode == STARTUP_FAILURE for one in supervisor.processes):
        raise UnspoolError("a worker cannot start; what it logged says why")
