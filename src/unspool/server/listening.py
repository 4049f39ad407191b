"""The socket of a server: how it is had, and what becomes of connections when no file descriptor is left."""

from __future__ import annotations

import errno
import logging
import os
import socket
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from multiprocessing import reduction
from typing import Any

from unspool.errors import ArgumentError
from unspool.server.refusals import EXHAUSTED, overloaded
from unspool.server.settings import ServeSettings
from unspool.server.wire import as_http

log = logging.getLogger("unspool.server")
#: Seconds between two messages about the same lack, and between two errors that asyncio hears of.
QUIET, PAUSE = 60.0, 0.5


class Listening(socket.socket):
    """A listening socket that refuses connections for which no file descriptor is left.

    It keeps one descriptor in reserve, and gives it up for a moment to accept such a connection, to answer 503 and to
    close it. Else the connection would wait without an answer, and asyncio would log thousands of errors per second.

    Attributes:
        clock: Seconds; for tests.
    """

    clock: Callable[[], float] = staticmethod(time.monotonic)

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._reserve: int | None = None
        self._refused, self._told, self._failed = 0, -QUIET, -PAUSE
        self._hold()

    def accept(self) -> tuple[socket.socket, Any]:
        """The next connection.

        Raises:
            BlockingIOError: There is none, or those that there were have been refused.
        """
        while True:
            try:
                return super().accept()
            except OSError as error:
                if error.errno not in EXHAUSTED:
                    raise
                self._refuse(error)

    def close(self) -> None:
        self._release()
        super().close()

    def __reduce_ex__(self, protocol: Any) -> Any:
        """For the processes of workers, each of which has a reserve of its own."""
        return _rebuild, (reduction.DupFd(self.fileno()), self.family, self.type, self.proto)

    def _refuse(self, error: OSError) -> None:
        """Answer the next connection with 503, at the price of the reserve."""
        self._tell()
        if self._reserve is None and not self._hold():
            self._give_up(error)
        self._release()
        try:
            connection, _ = super().accept()
        except OSError as second:
            if second.errno in EXHAUSTED:  # another thread has taken the descriptor
                self._give_up(second)
            raise
        else:
            self._refused += 1
            with connection, suppress(OSError):
                connection.setblocking(False)
                connection.send(as_http(overloaded("The server has no room for another connection.", "connections")))
        finally:
            self._hold()

    def _give_up(self, error: OSError) -> None:
        """Let asyncio pause: it does so for a second after an error, of which it is told once."""
        now = self.clock()
        if now - self._failed < PAUSE:
            raise BlockingIOError from error
        self._failed = now
        raise error

    def _tell(self) -> None:
        now = self.clock()
        if now - self._told >= QUIET:
            self._told = now
            more = f", as {self._refused:,} before" if self._refused else ""
            log.warning("no file descriptor is left: connections are refused%s. Raise the limit (ulimit -n).", more)

    def _hold(self) -> bool:
        if self._reserve is None:
            with suppress(OSError):
                self._reserve = os.open(os.devnull, os.O_RDONLY)
        return self._reserve is not None

    def _release(self) -> None:
        reserve, self._reserve = self._reserve, None
        if reserve is not None:
            os.close(reserve)


def _rebuild(duplicate: Any, family: int, kind: int, protocol: int) -> Listening:
    return Listening(family, kind, protocol, fileno=duplicate.detach())


def listen(settings: ServeSettings) -> socket.socket:
    """The socket of the address.

    Raises:
        ArgumentError: The port is in use, or the address is not one of this machine.
    """
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    # asyncio sends at once (TCP_NODELAY) only where the protocol is said; else each answer waits 40 ms
    make = socket.socket if sys.platform == "win32" else Listening
    found = make(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
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
