"""Runs a server until it is told to end, in this process or in several, and lets what has begun come to its end."""

from __future__ import annotations

import gc
import math
import signal
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import uvicorn

from unspool.server.app import make_app
from unspool.server.listening import listen
from unspool.server.logs import log_to_stderr
from unspool.server.process import quiet_garbage_collection, short_waits, steady_allocation
from unspool.server.service import Service
from unspool.server.settings import ServeSettings
from unspool.server.wire import StrictHttp, StrictSocket
from unspool.server.workers import Worker, run_workers


def serve(runs: Sequence[str | Path], settings: ServeSettings, version: str, tell: Callable[[str], None]) -> None:
    """Serve runs until SIGTERM or SIGINT; then no connection is accepted, and requests that have begun are answered.

    Args:
        runs: Run folders.
        settings: How and what is allowed.
        version: Of unspool.
        tell: Is told the address when the server listens.

    Raises:
        ArgumentError: A run cannot be loaded, or the address cannot be had.
    """
    listening = listen(settings)
    short_waits()
    try:
        service = Service.load(runs, settings)  # also where workers load their own: what is wrong is told once, here
    except BaseException:
        listening.close()
        raise
    host, port = listening.getsockname()[:2]
    tell(f"serving {', '.join(service.models)} at http://{f'[{host}]' if ':' in host else host}:{port}")
    log_to_stderr()
    if settings.workers > 1:
        del service
        gc.collect()  # models have cycles, and the parent needs none of them
        run_workers(Worker(tuple(runs), settings, version), listening, configure(settings))
        return
    steady_allocation()
    # uvicorn raises the signal again when all is done: an orderly end is no failure
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: None)
    app = make_app(service, version)
    quiet_garbage_collection()
    uvicorn.Server(uvicorn.Config(app, **configure(settings))).run(sockets=[listening])


def configure(settings: ServeSettings) -> dict[str, Any]:
    """How uvicorn runs the app: arguments of its configuration."""
    return {
        "loop": "asyncio",  # its sockets are ours
        "http": StrictHttp,
        "ws": StrictSocket,
        "ws_max_size": settings.max_body,
        "ws_per_message_deflate": False,  # a small message could become a large one
        "interface": "asgi3",
        "lifespan": "on",
        "log_config": None,
        "access_log": False,
        "proxy_headers": False,
        "server_header": False,
        "timeout_graceful_shutdown": math.ceil(settings.timeout) + 1,
    }
