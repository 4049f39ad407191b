"""SessionStore: the contract of what keeps the sessions of callers, by unguessable ids."""

from __future__ import annotations

import asyncio
import math
import secrets
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable
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
    """A session and whose it is.

    Attributes:
        deleted: Whether it was deleted while a request used it.
        stop: Ends what that request does, where it can be ended.
    """

    id: str
    owner: bytes
    model: ServedModel
    session: Session
    deleted: bool = False
    stop: Callable[[], None] | None = None

    def end(self) -> None:
        """It was deleted: what uses it ends as soon as it can."""
        self.deleted = True
        if self.stop is not None:
            self.stop()


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
        """Forget a session; a text that is being written in it ends with an error, other requests come to their end."""

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


def deleted() -> RefusalError:
    """That a session was deleted while it was used."""
    return RefusalError(404, "The session was deleted meanwhile. Open a new one.", "session_deleted")


def too_many(most: int, wait: float) -> RefusalError:
    """That an owner has no room for another session, until in `wait` seconds one may be dropped."""
    seconds = max(1, math.ceil(wait))
    message = f"You have {most:,} sessions, all in use. Delete some, or try again in {seconds} s."
    return RefusalError(429, message, "too_many_sessions", headers={"retry-after": str(seconds)})
