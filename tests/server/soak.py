"""A soak: more clients than a server has room for, some of which leave, stall or send garbage."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import numpy as np

CHUNK = 16
JSON = {"content-type": "application/json"}


@dataclass
class Soaked:
    """What came of it."""

    served: int = 0
    refused: int = 0
    wrong: list[str] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    resident: list[int] = field(default_factory=list)

    @property
    def drift(self) -> float:
        """How much memory the last third of the time has needed beyond the second, as a fraction."""
        third = len(self.resident) // 3
        before, after = np.median(self.resident[third : 2 * third]), np.median(self.resident[2 * third :])
        return float(after / before - 1)


class Soak:
    """Clients of one server of the accumulator.

    Args:
        url: Its address.
        process: Its number.
        known: The output after some steps, from the sum and the number of the inputs.
    """

    def __init__(self, url: str, process: int, known: Callable[[Any, Any], Any]) -> None:
        self.url, self.process, self.known, self.found = url, process, known, Soaked()
        self.end = 0.0

    async def run(self, seconds: float, clients: int) -> Soaked:
        """All clients at once, for so long."""
        self.end = time.monotonic() + seconds
        kinds: list[Callable[[int], Coroutine[Any, Any, None]]] = [self.honest, self.honest, self.leaving, self.garbage]
        async with asyncio.TaskGroup() as group:
            for number in range(clients):
                group.create_task(kinds[number % 4](number))
            group.create_task(self.stalling())
            group.create_task(self.watch())
        return self.found

    @property
    def lasts(self) -> bool:
        return time.monotonic() < self.end

    async def honest(self, number: int) -> None:
        """Steps whose outputs are known; what is refused is asked again."""
        source = random.Random(number)
        async with httpx.AsyncClient(base_url=self.url, timeout=60) as client:
            while self.lasts:
                opened = await client.post("/v1/sessions", json={})
                if not self.count(opened, 201):
                    await asyncio.sleep(0.01)
                    continue
                path, total, steps = f"/v1/sessions/{opened.json()['id']}", 0.0, 0
                for _ in range(8):
                    inputs = [float(source.randint(-100, 100) + 1000 * number) for _ in range(CHUNK)]
                    began = time.perf_counter()
                    answer = await client.post(f"{path}/step", json={"inputs": [[x] for x in inputs]})
                    if not self.count(answer, 200):
                        await asyncio.sleep(0.01)
                        continue
                    self.found.seconds.append(time.perf_counter() - began)
                    sums, counts = total + np.cumsum(inputs), steps + np.arange(1, CHUNK + 1)
                    self.compare(np.array(answer.json()["outputs"])[:, 0], self.known(sums, counts), number)
                    total, steps = float(sums[-1]), steps + CHUNK
                await client.delete(path)

    async def leaving(self, number: int) -> None:
        """Asks and does not wait for the answer."""
        source = random.Random(number)
        async with httpx.AsyncClient(base_url=self.url) as client:
            while self.lasts:
                timeout = 0.001 + 0.02 * source.random()
                try:
                    opened = await client.post("/v1/sessions", json={}, timeout=timeout)
                    path = f"/v1/sessions/{opened.json()['id']}/step"
                    await client.post(path, json={"inputs": [[1.0]] * 500}, timeout=timeout)
                except (httpx.HTTPError, KeyError):
                    await asyncio.sleep(0.01)

    async def garbage(self, number: int) -> None:
        """Sends what is no request of the documented form."""
        source = random.Random(number)
        paths = ("/v1/predict", "/v1/sessions", "/v1/completions", "/v1/sessions/x/step", "/%00")
        async with httpx.AsyncClient(base_url=self.url, timeout=60) as client:
            while self.lasts:
                answer = await client.post(source.choice(paths), content=source.randbytes(200), headers=JSON)
                if not 400 <= answer.status_code < 500:
                    self.found.wrong.append(f"garbage was answered with {answer.status_code}")
                await asyncio.sleep(0.005)

    async def stalling(self) -> None:
        """Connections that send half a request and nothing more."""
        host, port = self.url.removeprefix("http://").split(":")
        writers = []
        for _ in range(10):
            _, writer = await asyncio.open_connection(host, int(port))
            writer.write(b"POST /v1/predict HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: 100\r\n\r\n{")
            writers.append(writer)
        await asyncio.sleep(max(0, self.end - time.monotonic()))
        for writer in writers:
            writer.close()

    async def watch(self) -> None:
        """The memory of the server, where the system tells it."""
        place = Path(f"/proc/{self.process}/statm")
        while self.lasts and place.exists():
            self.found.resident.append(int(place.read_text().split()[1]))
            await asyncio.sleep(0.1)

    def count(self, answer: httpx.Response, status: int) -> bool:
        """Whether a request was served; one that is not is refused as documented."""
        if answer.status_code == status:
            self.found.served += 1
            return True
        self.found.refused += 1
        if answer.status_code not in (404, 429, 503) or "error" not in answer.json():
            self.found.wrong.append(f"{answer.status_code}: {answer.text[:200]}")
        return False

    def compare(self, found: Any, expected: Any, number: int) -> None:
        error = float(np.abs(found - expected).max())
        if error > 1e-3 * (1 + float(np.abs(expected).max())):
            self.found.wrong.append(f"client {number} has an output that is off by {error}")
