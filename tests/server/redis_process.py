"""Debian's redis-server for tests, on a socket in a folder of its own."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from redis import Redis
from redis.exceptions import RedisError

SECONDS = 30


class Store:
    """A Redis that can be ended and started again; it keeps nothing on disk but what `stop` saves.

    Args:
        folder: An empty folder; its path must be short, as a socket is in there.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None
        self.url = f"unix://{folder}/redis.sock"

    def start(self) -> None:
        """Until it answers."""
        options = {"port": "0", "unixsocket": str(self._folder / "redis.sock"), "dir": str(self._folder), "save": ""}
        words = [word for name, value in options.items() for word in (f"--{name}", value)]
        self._process = subprocess.Popen(["redis-server", *words], stdout=subprocess.DEVNULL)
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            try:
                with self.client() as client:
                    client.ping()
                return
            except RedisError:
                time.sleep(0.02)
        raise AssertionError("redis-server does not answer")

    def stop(self, *, save: bool = False) -> None:
        """End it; what it has is there again at the next start if it is saved."""
        if self._process is not None:
            if save:
                with self.client() as client:
                    client.save()
            self._process.kill()
            self._process.wait(SECONDS)
            self._process = None

    def client(self) -> Redis:
        """A client, to look inside."""
        return Redis.from_url(self.url)


@contextmanager
def redis_server(folder: Path) -> Iterator[Store]:
    """A Redis that runs; the test is skipped where none is installed."""
    if shutil.which("redis-server") is None:
        pytest.skip("redis-server is not installed: apt-get install redis-server")
    store = Store(folder)
    store.start()
    try:
        yield store
    finally:
        store.stop()
