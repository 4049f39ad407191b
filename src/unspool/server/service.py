"""Service: the models, the sessions and the metrics that all routes share."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path

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

    def __init__(self, models: Mapping[str, ServedModel], settings: ServeSettings, metrics: Metrics) -> None:
        self.models, self.settings, self.metrics = models, settings, metrics
        self.sessions = SessionStore(
            settings.max_sessions, settings.idle, min(settings.timeout, settings.idle), metrics
        )

    @classmethod
    def load(cls, runs: Sequence[str | Path], settings: ServeSettings) -> Service:
        """Load run folders.

        Raises:
            ArgumentError: One is not a run, or two have the same name.
        """
        metrics = Metrics()
        return cls(load_models(runs, settings, metrics), settings, metrics)

    @property
    def ready(self) -> bool:
        """Whether every model would answer."""
        return all(model.batcher.alive for model in self.models.values())

    @cached_property
    def link_key(self) -> bytes:
        """What links are signed with: the same in all workers, and slow to guess tokens from."""
        if not self.settings.token:
            return secrets.token_bytes(32)
        secret = "\n".join(sorted(self.settings.token)).encode()
        return hashlib.scrypt(secret, salt=b"unspool link", n=2**14, r=8, p=1, dklen=32)

    def close(self) -> None:
        """End the workers of all models."""
        for model in self.models.values():
            model.batcher.close()
