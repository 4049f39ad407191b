"""SessionStore: sessions of callers by unguessable ids, in memory, with a limit and an expiry."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from unspool.runtime.session import Session
from unspool.server.metrics import Metrics
from unspool.server.models import ServedModel
from unspool.server.refusals import RefusalError

#: Random bytes of an id.
ID_BYTES = 24


@dataclass
class Entry:
    """A session and whose it is."""

    id: str
    owner: bytes
    model: ServedModel
    session: Session
    used: float
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)  # held by the request that uses the session


class SessionStore:
    """All sessions, the least recently used first.

    Args:
        most: How many there may be.
        idle: Seconds after which one that is not used is dropped.
        spare: A session that was used within so many seconds is not dropped to make room.
        metrics: Counts sessions.
        clock: Seconds; for tests.
    """

    def __init__(
        self, most: int, idle: float, spare: float, metrics: Metrics, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._most, self._idle, self._spare, self._clock, self._metrics = most, idle, spare, clock, metrics
        self._entries: OrderedDict[str, Entry] = OrderedDict()
        metrics.gauge("unspool_sessions", lambda: len(self._entries))

    def open(self, owner: bytes, model: ServedModel, session: Session) -> Entry:
        """Keep a new session.

        Raises:
            RefusalError: 429: there are too many that are in use.
        """
        self.sweep()
        if len(self._entries) >= self._most and not self._make_room():
            message = f"There are {self._most} sessions, all in use. Delete some, or try again later."
            raise RefusalError(429, message, "too_many_sessions")
        entry = Entry(secrets.token_urlsafe(ID_BYTES), owner, model, session, self._clock())
        self._entries[entry.id] = entry
        return entry

    def find(self, name: str, owner: bytes) -> Entry:
        """The session with this id, if it is the caller's.

        Raises:
            RefusalError: 404: there is none; the same for one of another caller.
        """
        self.sweep()
        entry = self._entries.get(name)
        if entry is None or not secrets.compare_digest(entry.owner, owner):
            raise RefusalError(404, "There is no such session, or it has expired. Open a new one.", "session_not_found")
        entry.used = self._clock()
        self._entries.move_to_end(name)
        return entry

    @asynccontextmanager
    async def using(self, name: str, owner: bytes) -> AsyncIterator[Entry]:
        """The session, for one request at a time, in the order in which they come."""
        entry = self.find(name, owner)
        async with entry.lock:
            self.find(name, owner)  # it may have been deleted meanwhile
            try:
                yield entry
            finally:
                entry.used = self._clock()

    def drop(self, entry: Entry) -> None:
        """Forget a session."""
        self._entries.pop(entry.id, None)

    def sweep(self) -> None:
        """Drop what has expired."""
        now = self._clock()
        while (first := next(iter(self._entries.values()), None)) is not None and now - first.used > self._idle:
            if first.lock.locked():
                first.used = now
                self._entries.move_to_end(first.id)
            else:
                self._forget(first, "expired")

    def __len__(self) -> int:
        return len(self._entries)

    def _make_room(self) -> bool:
        now = self._clock()
        for entry in self._entries.values():
            if now - entry.used < self._spare:
                return False
            if not entry.lock.locked():
                self._forget(entry, "evicted")
                return True
        return False

    def _forget(self, entry: Entry, reason: str) -> None:
        del self._entries[entry.id]
        self._metrics.count("unspool_sessions_dropped_total", reason=reason)
