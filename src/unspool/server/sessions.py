"""SessionStore: the contract of what keeps the sessions of callers, by unguessable ids."""

from __future__ import annotations

import asyncio
import secrets
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass

from unspool.runtime.session import Session
from unspool.server.models import ServedModel
from unspool.server.refusals import RefusalError, overloaded

#: Random bytes of an id.
ID_BYTES = 24
#: Requests that may wait while another uses the session.
MOST_WAITING = 8


@dataclass
class Entry:
    """A session and whose it is."""

    id: str
    owner: bytes
    model: ServedModel
    session: Session


class Line:
    """The requests for one session: one uses it, and some wait in the order in which they came."""

    def __init__(self) -> None:
        self._lock, self._waiting = asyncio.Lock(), 0

    def locked(self) -> bool:
        """Whether a request uses the session."""
        return self._lock.locked()

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Wait for the session, and hold it.

        Raises:
            RefusalError: 503: too many wait.
        """
        if self._waiting >= MOST_WAITING:
            message = f"{MOST_WAITING} requests wait for the session. Send one when the one before it is answered."
            raise overloaded(message, "session_busy")
        self._waiting += 1
        try:
            await self._lock.acquire()
        finally:
            self._waiting -= 1
        try:
            yield
        finally:
            self._lock.release()


class SessionStore(ABC):
    """Keeps sessions, with a limit and an expiry."""

    @abstractmethod
    async def open(self, owner: bytes, model: ServedModel, session: Session) -> Entry:
        """Keep a new session.

        Raises:
            RefusalError: 429: there are too many that are in use.
        """

    @abstractmethod
    async def find(self, name: str, owner: bytes) -> Entry:
        """The session with this id, if it is the caller's, to be looked at.

        Raises:
            RefusalError: 404: there is none; the same for one of another caller.
        """

    @abstractmethod
    def using(self, name: str, owner: bytes) -> AbstractAsyncContextManager[Entry]:
        """The session, for one request at a time. What the request has made of it is kept when the context ends.

        Raises:
            RefusalError: 404: there is none; 503: too many requests wait for it.
        """

    @abstractmethod
    async def drop(self, entry: Entry) -> None:
        """Forget a session; a request that uses it meanwhile comes to its end."""

    @abstractmethod
    async def tend(self) -> None:
        """What is to be done again and again while the server runs; it is cancelled in the end."""

    async def ready(self) -> bool:
        """Whether sessions could be kept now."""
        return True

    async def read_metrics(self) -> list[dict[str, list[str]]]:
        """Metrics of other workers with the same store, as `Metrics.lines` gave them."""
        return []

    async def close(self) -> None:
        """Nothing is asked any more."""
        return


def make_id() -> str:
    """An id that cannot be guessed."""
    return secrets.token_urlsafe(ID_BYTES)


def not_found() -> RefusalError:
    """That there is no such session; the same for one of another caller."""
    return RefusalError(404, "There is no such session, or it has expired. Open a new one.", "session_not_found")


def too_many(most: int) -> RefusalError:
    """That there is no room for another session."""
    message = f"There are {most:,} sessions, all in use. Delete some, or try again later."
    return RefusalError(429, message, "too_many_sessions")
