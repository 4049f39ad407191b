"""Runs a server until it is told to end, in this process or in several, and lets what has begun come to its end."""

from __future__ import annotations

import errno
import gc
import math
import signal
import socket
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import uvicorn

from unspool.errors import ArgumentError
from unspool.server.app import make_app
from unspool.server.logs import log_to_stderr
from unspool.server.process import quiet_garbage_collection, short_waits, steady_allocation
from unspool.server.service import Service
from unspool.server.settings import ServeSettings
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
        "http": "h11",
        "ws": "websockets-sansio",
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


def listen(settings: ServeSettings) -> socket.socket:
    """The socket of the address.

    Raises:
        ArgumentError: The port is in use, or the address is not one of this machine.
    """
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    # asyncio sends at once (TCP_NODELAY) only where the protocol is said; else each answer waits 40 ms
    found = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        if sys.platform != "win32":  # there it would share the port
            found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind((settings.host, settings.port))
        found.listen(2048)
    except OSError as error:
        found.close()
        if error.errno == errno.EADDRINUSE:
            raise ArgumentError.of("port", settings.port, "is in use", "Give another, or 0 for any") from error
        problem = f"cannot be listened on: {error.strerror or error}"
        raise ArgumentError.of("host", settings.host, problem, "Give an address of this machine") from error
    return found
