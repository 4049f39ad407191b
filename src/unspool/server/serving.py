"""Runs a server in this process until it is told to end, and lets what has begun come to its end."""

from __future__ import annotations

import errno
import logging
import math
import signal
import socket
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import uvicorn

from unspool.errors import ArgumentError
from unspool.server.app import make_app
from unspool.server.service import Service
from unspool.server.settings import ServeSettings


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
    try:
        service = Service.load(runs, settings)
    except BaseException:
        listening.close()
        raise
    log_to_stderr()
    host, port = listening.getsockname()[:2]
    tell(f"serving {', '.join(service.models)} at http://{f'[{host}]' if ':' in host else host}:{port}")
    # uvicorn raises the signal again when all is done: an orderly end is no failure
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: None)
    uvicorn.Server(configure(service, version)).run(sockets=[listening])


def configure(service: Service, version: str) -> uvicorn.Config:
    """How uvicorn runs the app."""
    settings = service.settings
    return uvicorn.Config(
        make_app(service, version),
        http="h11",
        ws="websockets-sansio",
        ws_max_size=settings.max_body,
        ws_per_message_deflate=False,  # a small message could become a large one
        lifespan="on",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        timeout_graceful_shutdown=math.ceil(settings.timeout) + 1,
    )


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


def log_to_stderr() -> None:
    """Requests as JSON, one per line, and failures of the server."""
    for name, shape in (("unspool.access", "%(message)s"), ("unspool.server", "%(levelname)s %(message)s")):
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(logging.Formatter(shape))
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(logging.INFO)
