"""MemoryStore: sessions in the memory of one process, the least recently used first."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections import Counter, OrderedDict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from unspool.runtime.session import Session
from unspool.server.metrics import Metrics
from unspool.server.models import ServedModel
from unspool.server.sessions import Entry, Line, SessionStore, make_id, not_found, too_many

#: Seconds between two looks at sessions that nobody uses.
SWEEP = 10.0


@dataclass
class Kept(Entry):
    """A session in memory."""

    used: float = 0.0
    line: Line = field(default_factory=Line)  # of the requests that use the session


class MemoryStore(SessionStore):
    """All sessions, the least recently used first.

    Args:
        most: How many there may be of each owner.
        idle: Seconds after which one that is not used is dropped.
        spare: A session that was used within so many seconds is not dropped to make room.
        metrics: Counts sessions.
        clock: Seconds; for tests.
    """

    def __init__(
        self, most: int, idle: float, spare: float, metrics: Metrics, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._most, self._idle, self._spare, self._clock, self._metrics = most, idle, spare, clock, metrics
        self._entries: OrderedDict[str, Kept] = OrderedDict()
        self._counts: Counter[bytes] = Counter()  # of each owner
        metrics.gauge("unspool_sessions", lambda: len(self._entries))

    async def open(self, owner: bytes, model: ServedModel, session: Session) -> Entry:
        self.sweep()
        if self._counts[owner] >= self._most and (wait := self._make_room(owner)):
            raise too_many(self._most, wait)
        entry = Kept(make_id(), owner, model, session, used=self._clock())
        self._entries[entry.id] = entry
        self._counts[owner] += 1
        return entry

    async def find(self, name: str, owner: bytes) -> Entry:
        return self._find(name, owner)

    def _find(self, name: str, owner: bytes) -> Kept:
        self.sweep()
        entry = self._entries.get(name)
        if entry is None or not secrets.compare_digest(entry.owner, owner):
            raise not_found()
        self._touch(entry)
        return entry

    def _touch(self, entry: Kept) -> None:
        """It is used now, and the last to go; one that was deleted meanwhile stays deleted."""
        entry.used = self._clock()
        if entry.id in self._entries:
            self._entries.move_to_end(entry.id)

    @asynccontextmanager
    async def using(self, name: str, owner: bytes) -> AsyncIterator[Entry]:
        """The session, for one request at a time, in the order in which they come."""
        entry = self._find(name, owner)
        async with entry.line.turn():
            self._find(name, owner)  # it may have been deleted meanwhile
            try:
                yield entry
            finally:
                entry.stop = None
                self._touch(entry)

    async def drop(self, entry: Entry) -> None:
        self._remove(entry)
        entry.end()

    def _remove(self, entry: Entry) -> None:
        if self._entries.pop(entry.id, None) is not None:
            self._counts[entry.owner] -= 1
            self._counts += Counter()  # without those of none

    async def tend(self) -> None:
        while True:
            await asyncio.sleep(min(SWEEP, self._idle))
            self.sweep()

    def sweep(self) -> None:
        """Drop what has expired."""
        now = self._clock()
        while (first := next(iter(self._entries.values()), None)) is not None and now - first.used > self._idle:
            if first.line.locked():
                first.used = now
                self._entries.move_to_end(first.id)
            else:
                self._forget(first, "expired")

    def __len__(self) -> int:
        return len(self._entries)

    def _make_room(self, owner: bytes) -> float:
        """Drop the owner's least recently used session; else the seconds until that could be done."""
        now, free = self._clock(), (one for one in self._entries.values() if one.owner == owner)
        oldest = next((one for one in free if not one.line.locked()), None)
        if oldest is None:
            return self._spare
        if now - oldest.used >= self._spare:
            self._forget(oldest, "evicted")
            return 0.0
        return self._spare - (now - oldest.used)

    def _forget(self, entry: Kept, reason: str) -> None:
        self._remove(entry)
        self._metrics.count("unspool_sessions_dropped_total", reason=reason)
