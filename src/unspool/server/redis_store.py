"""RedisStore: sessions in Redis, so that any of several workers can go on with any of them.

A worker takes a session with a lock, plays it in its memory, and writes it back before the answer is sent. The lock has
its holder's name and ends by itself: a worker that dies loses the call it was at, and another goes on from what was
written before. What is written without the lock is refused.

Redis learns neither ids nor tokens: the key of a session is a digest of its id and of who owns it.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import logging
import secrets
from collections.abc import AsyncIterator, Awaitable, Sequence
from contextlib import asynccontextmanager, suppress
from functools import cache
from typing import Any, cast
from weakref import WeakValueDictionary

from redis.asyncio import BlockingConnectionPool, Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError

from unspool.errors import ArgumentError, UnspoolError
from unspool.runtime.session import Session
from unspool.server import redis_scripts
from unspool.server.metrics import Metrics
from unspool.server.models import ServedModel
from unspool.server.refusals import RefusalError, overloaded
from unspool.server.sessions import Entry, Line, SessionStore, make_id, not_found, too_many
from unspool.server.settings import ServeSettings

#: The braces keep all keys on one node of a cluster.
PREFIX = "{unspool}"
SESSIONS, LOCKS, METRICS = f"{PREFIX}:session:", f"{PREFIX}:lock:", f"{PREFIX}:metrics:"
USED, WORKERS = f"{PREFIX}:used:", f"{PREFIX}:workers"
SCRIPTS = ("open", "find", "take", "give_back", "drop", "renew")
#: Seconds until the lock of a worker that has died ends, and between two renewals by one that lives.
LEASE, RENEWAL = 5.0, 1.0
#: Renewals between two times at which metrics are shared, and how many seconds these count.
SHARING, SHARED = 3, 10
#: Seconds between two tries to take a session that another worker holds.
PAUSE = 0.03
#: Seconds that Redis may take, and connections to it.
PATIENCE, CONNECTIONS = 2.0, 64
log = logging.getLogger("unspool.server")


class RedisStore(SessionStore):
    """Sessions that several workers share.

    Args:
        models: By name.
        settings: With the address of Redis.
        metrics: Counts sessions; those of this worker are shared.
    """

    def __init__(self, models: dict[str, ServedModel], settings: ServeSettings, metrics: Metrics) -> None:
        self._models, self._metrics, self._most = models, metrics, settings.session_share
        self._owners = settings.owners
        self._idle, self._spare = _ms(settings.idle), _ms(min(settings.timeout, settings.idle))
        self._redis = connect(settings.redis or "")
        self._scripts = {name: self._redis.register_script(getattr(redis_scripts, name.upper())) for name in SCRIPTS}
        self._held: dict[str, tuple[str, Entry]] = {}  # key of a session → name of the holder of its lock
        self._lines: WeakValueDictionary[str, Line] = WeakValueDictionary()
        self._releasing: set[asyncio.Future[None]] = set()  # a loop holds its tasks by weak references alone
        self._name, self._count, self._works = secrets.token_hex(8), 0, True
        metrics.common_gauge("unspool_sessions", lambda: self._count)

    async def open(self, owner: bytes, model: ServedModel, session: Session) -> Entry:
        entry = Entry(make_id(), owner, model, session)
        own = (model.name, model.player.digest.hex(), session.save(), SESSIONS, LOCKS)
        key = _key(entry.id, owner)
        limits = (self._idle, self._spare, self._most)
        kept, expired, evicted, wait = await self._run("open", key, owner, *limits, *own)
        for reason, count in (("expired", expired), ("evicted", evicted)):
            if count:
                self._metrics.count("unspool_sessions_dropped_total", count, reason=reason)
        if not kept:
            raise too_many(self._most, wait / 1000)
        return entry

    async def find(self, name: str, owner: bytes) -> Entry:
        return self._read(name, owner, await self._run("find", _key(name, owner), owner, self._idle))

    @asynccontextmanager
    async def using(self, name: str, owner: bytes) -> AsyncIterator[Entry]:
        """The session, for one request at a time; those of one worker in the order in which they come."""
        key, holder = _key(name, owner), secrets.token_hex(16)
        line = self._lines.setdefault(key, Line())
        async with line.turn():
            try:
                entry = await self._take(name, owner, holder)
            except BaseException:  # one who left may have got the lock nevertheless
                self._release_soon(key, owner, holder)
                raise
            before = (entry.session, entry.session.position)
            self._held[key] = holder, entry
            try:
                yield entry
            finally:
                # also one who is no longer waited for writes back what was done
                await asyncio.shield(asyncio.ensure_future(self._give_back(entry, key, holder, before)))

    async def drop(self, entry: Entry) -> None:
        key = _key(entry.id, entry.owner)
        await self._run("drop", key, entry.owner)
        if key in self._held:  # what another worker holds it hears of when it renews its lock
            self._held[key][1].end()

    async def tend(self) -> None:
        """Renew the locks of sessions that are being used, and share metrics, as long as the server runs."""
        for number in _count_up():
            try:
                await self._renew()
                if number % SHARING == 0:
                    await self._share()
            except Exception as error:  # the loop must outlive any mistake: without it locks end
                if not isinstance(error, RedisError | OSError):
                    log.exception("the store of sessions failed")
            await asyncio.sleep(RENEWAL)

    async def ready(self) -> bool:
        try:
            async with asyncio.timeout(PATIENCE):
                await self._redis.ping()
        except (RedisError, OSError, TimeoutError):
            return False
        return True

    async def read_metrics(self) -> list[dict[str, list[str]]]:
        try:
            self._count = sum([await self._redis.zcard(_used(owner)) for owner in self._owners])
            names = await cast(Any, self._redis.smembers(WORKERS))
            others = [name for name in map(bytes.decode, names) if name != self._name]
            found = await self._redis.mget([METRICS + name for name in others]) if others else []
            await self._forget([name for name, text in zip(others, found, strict=True) if text is None])
            return [json.loads(text) for text in found if text is not None]
        except (RedisError, OSError):
            return []

    async def close(self) -> None:
        await self._redis.aclose()
        await self._redis.connection_pool.disconnect()

    # ── what is asked of Redis ──

    async def _take(self, name: str, owner: bytes, holder: str) -> Entry:
        """The session with its lock; one that another worker holds is waited for until its lock would have ended."""
        key, loop = _key(name, owner), asyncio.get_running_loop()
        end = loop.time() + LEASE + RENEWAL
        while (found := await self._run("take", key, owner, self._idle, _ms(LEASE), holder)) == [b"busy"]:
            if loop.time() > end:
                raise overloaded("The session is being used by another request. Try again later.", "session_busy")
            await asyncio.sleep(PAUSE)
        return self._read(name, owner, found)

    async def _give_back(self, entry: Entry, key: str, holder: str, before: tuple[Session, int]) -> None:
        """Write back what has become of a session, and end its lock."""
        changed = before != (entry.session, entry.session.position)
        state, problem = b"", None
        try:
            state = entry.session.save() if changed else b""
        except UnspoolError as error:  # it diverges; what it was before stays
            problem = error
        self._held.pop(key, None)
        if not await self._run("give_back", key, entry.owner, self._idle, holder, state):
            raise overloaded("The session was taken over by another worker. Try again.", "session_lost")
        if problem is not None:
            raise problem

    def _release_soon(self, key: str, owner: bytes, holder: str) -> None:
        """End a lock in the background."""
        task = asyncio.ensure_future(self._release(key, owner, holder))
        self._releasing.add(task)
        task.add_done_callback(self._releasing.discard)

    async def _release(self, key: str, owner: bytes, holder: str) -> None:
        """End a lock, if it is this holder's; where Redis does not answer it ends by itself."""
        with suppress(RefusalError):
            await self._run("give_back", key, owner, self._idle, holder, b"")

    async def _renew(self) -> None:
        held = list(self._held.items())
        if held:
            keys = [one for key, (_, entry) in held for one in _keys(key, entry.owner)]
            holders = [holder for _, (holder, _) in held]
            for number in await self._scripts["renew"](keys=keys, args=[self._idle, _ms(LEASE), *holders]):
                held[number - 1][1][1].end()

    async def _forget(self, workers: Sequence[str]) -> None:
        """Strike out workers that have ended; one that lives adds itself again when it shares the next time."""
        if workers:
            await cast(Any, self._redis.srem(WORKERS, *workers))

    async def _share(self) -> None:
        await cast(Any, self._redis.sadd(WORKERS, self._name))
        await self._redis.set(METRICS + self._name, json.dumps(self._metrics.lines()), ex=SHARED)

    async def _run(self, script: str, key: str, owner: bytes, *arguments: Any) -> Any:
        return await self._ask(self._scripts[script](keys=_keys(key, owner), args=arguments))

    async def _ask(self, asked: Awaitable[Any]) -> Any:
        """The answer of Redis.

        Raises:
            RefusalError: 503: there is none.
        """
        try:
            # one who gives up waiting does not leave a connection with an answer that the next would read
            found = await asyncio.shield(asyncio.ensure_future(asked))
        except (RedisError, OSError, TimeoutError) as error:
            if self._works:
                log.error("the store of sessions does not answer: %s", type(error).__name__)
            self._works = False
            raise overloaded("The store of sessions does not answer. Try again later.", "store_unavailable") from error
        self._works = True
        return found

    def _read(self, name: str, owner: bytes, found: Sequence[bytes]) -> Entry:
        """An entry from what Redis has; one of a model that has changed meanwhile is gone."""
        model = self._models.get(found[0].decode()) if found else None
        if model is None or model.player.digest.hex().encode() != found[1]:
            raise not_found()
        try:
            return Entry(name, owner, model, model.player.restore(found[2]))
        except UnspoolError as error:
            log.error("a session of %s in the store cannot be read: %s", model.name, error)
            raise not_found() from error


def connect(url: str) -> Redis:
    """A client; it connects when it is first used, and again whenever a connection has been lost.

    Raises:
        ArgumentError: The address cannot be read.
    """
    once_more = Retry(NoBackoff(), 1)
    try:
        pool = BlockingConnectionPool.from_url(
            url,
            max_connections=CONNECTIONS,
            timeout=PATIENCE,
            socket_timeout=PATIENCE,
            socket_connect_timeout=PATIENCE,
            retry=once_more,
        )
    except ValueError as error:  # the address may have a password, and no message has it
        problem = "cannot be read"
        raise ArgumentError.of("redis", "…", problem, "Give one like redis://127.0.0.1:6379/0") from error
    return Redis(connection_pool=pool)


def _key(name: str, owner: bytes) -> str:
    """Where a session is kept: only who has its id and its owner's token finds it."""
    return hmac.digest(name.encode("utf-8", "surrogatepass"), owner, "sha256").hex()


def _keys(key: str, owner: bytes) -> list[str]:
    """A session, its lock, and the set of its owner's sessions."""
    return [SESSIONS + key, LOCKS + key, _used(owner)]


@cache
def _used(owner: bytes) -> str:
    """The set of an owner's sessions; its name is slow to guess a token from."""
    return USED + hashlib.scrypt(owner, salt=b"unspool owner", n=2**14, r=8, p=1, dklen=16).hex()


def _ms(seconds: float) -> int:
    return max(1, round(1000 * seconds))


def _count_up() -> Sequence[int]:
    return range(2**62)
