"""Service: the models, the sessions and the metrics that all routes share."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

from unspool.server.memory_store import MemoryStore
from unspool.server.metrics import Metrics
from unspool.server.models import ServedModel, load_models
from unspool.server.sessions import SessionStore
from unspool.server.settings import ServeSettings


class Service:
    """What is served.

    Args:
        models: By name.
        settings: What is allowed.
        metrics: Those that the models count in.
    """

    def __init__(self, models: dict[str, ServedModel], settings: ServeSettings, metrics: Metrics) -> None:
        self.models, self.settings, self.metrics = models, settings, metrics
        self.sessions = make_store(models, settings, metrics)

    @classmethod
    def load(cls, runs: Sequence[str | Path], settings: ServeSettings) -> Service:
        """Load run folders.

        Raises:
            ArgumentError: One is not a run, or two have the same name.
        """
        metrics = Metrics(worker=str(os.getpid())) if settings.redis else Metrics()
        return cls(load_models(runs, settings, metrics), settings, metrics)

    @property
    def ready(self) -> bool:
        """Whether every model would answer."""
        return all(model.batcher.alive for model in self.models.values())

    @cached_property
    def link_key(self) -> bytes:
        """What links are signed with: the same in all workers, and slow to guess tokens from."""
        if not self.settings.token:
            return b"open"  # without a token everything is open to those who reach the server
        secret = "\n".join(sorted(self.settings.token)).encode()
        return hashlib.scrypt(secret, salt=b"unspool link", n=2**14, r=8, p=1, dklen=32)

    def close(self) -> None:
        """End the workers of all models."""
        for model in self.models.values():
            model.batcher.close()


def make_store(models: dict[str, ServedModel], settings: ServeSettings, metrics: Metrics) -> SessionStore:
    """Where sessions are kept: in Redis where its address is given, else in memory."""
    if settings.redis:
        from unspool.server.redis_store import RedisStore  # those who keep sessions in memory need no client of Redis

        return RedisStore(models, settings, metrics)
    return MemoryStore(settings.session_share, settings.idle, min(settings.timeout, settings.idle), metrics)
