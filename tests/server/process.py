"""A server in a process of its own, on a free port."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import httpx

SECONDS = 60


class Running(NamedTuple):
    """A server that answers."""

    process: subprocess.Popen[str]
    url: str


@contextmanager
def server(*arguments: object) -> Iterator[Running]:
    """`unspool serve` with these arguments; it is killed in the end if it still runs."""
    command = [sys.executable, "-m", "unspool", "serve", "--port", "0", *map(str, arguments)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "COLUMNS": "200"}
    process = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True, env=environment)
    try:
        assert process.stderr is not None
        said = process.stderr.readline()
        found = re.search(r"http://\S+", said)
        assert found, said + process.stderr.read()
        yield Running(process, found[0])
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate(timeout=SECONDS)


def wait_for(url: str) -> None:
    """Until it answers."""
    with httpx.Client(transport=httpx.HTTPTransport(retries=5)) as client:
        assert client.get(f"{url}/ready", timeout=SECONDS).status_code == 200
