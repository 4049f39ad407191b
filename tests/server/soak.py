"""A soak: twice the clients that a server has room for, some of which leave, stall or send garbage."""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections import Counter
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import accumulate, cycle
from pathlib import Path
from typing import Any

import numpy as np
from tests.server.wire import Answer, Wire
from websockets.asyncio.client import connect
from websockets.exceptions import WebSocketException

from unspool.runtime.run_player import RunPlayer

#: Steps of a request, and requests of a session.
CHUNK, CALLS = 64, 8
#: Sessions that there is room for; places in a batch, and behind it.
SESSIONS, BATCH, QUEUE = 16, 2, 1
LIMITS = {
    **{"--batch-size": BATCH, "--queue": QUEUE, "--max-sessions": SESSIONS},
    **{"--idle": 3, "--timeout": 5, "--max-tokens": 1024},
}
#: Seconds that a client waits which was refused.
PAUSE = 0.02
#: Seconds after which a client that was not answered has found a mistake.
HANG = 30


@dataclass
class Soaked:
    """What came of it."""

    statuses: Counter[int] = field(default_factory=Counter)
    steps: int = 0
    wrong: list[str] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    resident: list[int] = field(default_factory=list)

    @property
    def drift(self) -> float:
        """How much memory the last quarter of the time has needed beyond the third, as a fraction.

        In the first half, which is longer the busier the machine is, buffers grow to their sizes.
        """
        quarter = len(self.resident) // 4
        before, after = np.median(self.resident[2 * quarter : 3 * quarter]), np.median(self.resident[3 * quarter :])
        return float(after / before - 1)

    def __str__(self) -> str:
        p50, p99 = np.quantile(self.seconds, [0.5, 0.99]) * 1000
        counts = ", ".join(f"{count:,} × {status}" for status, count in sorted(self.statuses.items()))
        memory = f"{100 * self.drift:+.2f} % memory" if len(self.resident) > 30 else "memory not watched"
        return f"{counts}; {self.steps:,} steps; p50 {p50:.1f} ms, p99 {p99:.1f} ms of {CHUNK} steps; {memory}"


class Soak:
    """Clients of one server of an exact accumulator and of a character model.

    Args:
        url: Its address.
        process: Its number.
        book: The player of the character model, which every stream is compared with.
    """

    def __init__(self, url: str, process: int, book: RunPlayer) -> None:
        self.url, self.process, self.book, self.found = url, process, book, Soaked()
        self.name, self.end = Path(book.run).name, 0.0

    async def run(self, seconds: float) -> Soaked:
        """All clients at once, for so long."""
        self.end = time.monotonic() + seconds
        kinds: list[Callable[[int], Coroutine[Any, Any, None]]] = [self.adding, self.adding, self.reading, self.talking]
        async with asyncio.TaskGroup() as group:
            for number in range(2 * SESSIONS):
                group.create_task(kinds[number % 4](number))
            for number, one in enumerate((self.leaving, self.leaving, self.garbage, self.noise, self.slow_reader)):
                group.create_task(one(number))
            group.create_task(self.stalling())
            group.create_task(self.watch())
        return self.found

    @property
    def lasts(self) -> bool:
        return time.monotonic() < self.end

    # ── clients whose answers are known ──

    async def adding(self, number: int) -> None:
        """Sums of whole numbers, which are exact; those of each client are far from all others'."""
        source, wire = random.Random(number), Wire(self.url)
        while self.lasts:
            path, total = await self.open(wire, "sum"), 0
            for _ in range(CALLS if path else 0):
                inputs = [source.randint(-9, 9) + 100 * number for _ in range(CHUNK)]
                answer = await self.step(wire, f"{path}/step", {"inputs": [[x] for x in inputs]})
                if answer is not None:
                    expected = [[float(total + sum_)] for sum_ in accumulate(inputs)]
                    total += sum(inputs)
                    self.compare(answer.json["outputs"], expected, number)
            await self.leave(wire, path)
        wire.close()

    async def reading(self, number: int) -> None:
        """Steps of the character model, and its state in the end: the bits of the player."""
        source, wire = random.Random(number), Wire(self.url)
        while self.lasts:
            path, own = await self.open(wire, self.name), self.book.start()
            for _ in range(CALLS if path else 0):
                inputs = [source.randrange(self.book.tokens) for _ in range(CHUNK)]
                answer = await self.step(wire, f"{path}/step", {"inputs": inputs, "outputs": "last"})
                if answer is not None:
                    *_, last = [own.step(x) for x in inputs]
                    self.compare(answer.json["outputs"], [last.tolist()], number)
            if path and self.count(state := await wire.ask("GET", f"{path}/state")):
                self.compare(state.body, own.save(), number)
            await self.leave(wire, path)
        wire.close()

    async def talking(self, number: int) -> None:
        """The same sums over a WebSocket, several messages ahead of the answers."""
        source, wire = random.Random(number), Wire(self.url)
        while self.lasts:
            path = await self.open(wire, "sum")
            if path:
                async with connect(f"{self.url.replace('http', 'ws')}{path}/ws") as socket:
                    await self.talk(socket, source, number)
            await self.leave(wire, path)
        wire.close()

    async def talk(self, socket: Any, source: random.Random, number: int) -> None:
        total, asked = 0, []
        for call in range(CALLS):
            asked.append([source.randint(-9, 9) + 100 * number for _ in range(CHUNK)])
            await socket.send(json.dumps({"do": "step", "id": call, "inputs": [[x] for x in asked[-1]]}))
        for call, inputs in enumerate(asked):
            async with asyncio.timeout(HANG):
                answer = json.loads(await socket.recv())
            if answer["id"] != call:
                self.found.wrong.append(f"client {number} has the answer {answer['id']} for {call}")
            if "error" in answer:
                self.note(503 if answer["error"]["type"] == "overloaded_error" else 500, str(answer))
                continue
            self.note(200, "")
            expected = [[float(total + sum_)] for sum_ in accumulate(inputs)]
            total += sum(inputs)
            self.compare(answer["outputs"], expected, number)

    async def open(self, wire: Wire, model: str) -> str:
        """The path of a new session; nothing where there is no room."""
        answer = await wire.ask("POST", "/v1/sessions", {"model": model})
        if not self.count(answer):
            await asyncio.sleep(PAUSE)
            return ""
        return f"/v1/sessions/{answer.json['id']}"

    async def step(self, wire: Wire, path: str, body: dict[str, Any]) -> Answer | None:
        began = time.perf_counter()
        answer = await wire.ask("POST", path, body)
        if not self.count(answer):
            await asyncio.sleep(PAUSE)
            return None
        self.found.seconds.append(time.perf_counter() - began)
        return answer

    async def leave(self, wire: Wire, path: str) -> None:
        if path:
            self.count(await wire.ask("DELETE", path))

    # ── clients that misbehave ──

    async def leaving(self, number: int) -> None:
        """Asks and does not wait for the answer."""
        source = random.Random(number)
        bodies = ({"max_tokens": 1000, "stream": True}, {"inputs": [1] * 1000}, {"input": "the "})
        for what, body in cycle(zip(("generate", "step", "feed"), bodies, strict=True)):
            wire = Wire(self.url)
            if path := await self.open(wire, self.name):
                await wire.ask("POST", f"{path}/feed", {"input": "the "})
                await wire.send("POST", f"{path}/{what}", body)
                await asyncio.sleep(0.01 * source.random())
            wire.close()
            await asyncio.sleep(1.5)  # it is not this one's sessions that take all the room
            if not self.lasts:
                return

    async def garbage(self, number: int) -> None:
        """Bodies that are no JSON, for routes that there are and for others."""
        source, wire = random.Random(number), Wire(self.url)
        paths = ("/v1/predict", "/v1/sessions", "/v1/completions", "/v1/sessions/x/step", "/%00")
        while self.lasts:
            answer = await wire.ask("POST", source.choice(paths), source.randbytes(200))
            if not 400 <= answer.status < 500:
                self.found.wrong.append(f"garbage was answered with {answer.status}")
            await asyncio.sleep(PAUSE)
        wire.close()

    async def noise(self, number: int) -> None:
        """Bytes that are no HTTP."""
        source, wire = random.Random(number), Wire(self.url)
        while self.lasts:
            reader, writer = await asyncio.open_connection(wire.host, wire.port)
            writer.write(source.randbytes(2000))
            with suppress(ConnectionError, TimeoutError):  # without a line the server waits for its end
                async with asyncio.timeout(1):
                    await reader.read()
            writer.close()
            await asyncio.sleep(5 * PAUSE)

    async def slow_reader(self, number: int) -> None:
        """Sends messages and never reads an answer."""
        while self.lasts:
            wire = Wire(self.url)
            if path := await self.open(wire, self.name):
                with suppress(WebSocketException, TimeoutError):
                    async with asyncio.timeout(2), connect(f"{self.url.replace('http', 'ws')}{path}/ws") as socket:
                        while True:
                            await socket.send(json.dumps({"do": "step", "inputs": [1] * 100}))
                            await asyncio.sleep(PAUSE)
            wire.close()
            await asyncio.sleep(1)

    async def stalling(self) -> None:
        """Connections that send half a request and nothing more."""
        wires = [Wire(self.url) for _ in range(10)]
        while self.lasts:
            for wire in wires:
                wire.close()
                await wire.send("POST", "/v1/predict", b"")
                writer = wire._writer
                assert writer is not None
                writer.write(b"POST /v1/predict HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: 100\r\n\r\n{")
            await asyncio.sleep(min(3.0, max(0, self.end - time.monotonic())))
        for wire in wires:
            wire.close()

    # ── what is seen ──

    async def watch(self) -> None:
        """The memory of the server, where the system tells it."""
        place = Path(f"/proc/{self.process}/statm")
        while self.lasts and place.exists():
            self.found.resident.append(int(place.read_text().split()[1]))
            await asyncio.sleep(0.2)

    def count(self, answer: Answer) -> bool:
        """Whether a request was served; one that is not is refused as documented."""
        clean = answer.status < 400 or (b'"error"' in answer.body and b"retry-after: " in answer.head)
        self.note(answer.status if clean else 500, answer.body[:200].decode(errors="replace"))
        return answer.status < 300

    def note(self, status: int, text: str) -> None:
        self.found.statuses[status] += 1
        if status not in (200, 201, 204, 429, 503):
            self.found.wrong.append(f"{status}: {text[:200]}")

    def compare(self, found: Any, expected: Any, number: int) -> None:
        """To the bit: numbers come in the digits from which the same is read."""
        self.found.steps += CHUNK
        if found != expected:
            self.found.wrong.append(f"client {number} got {str(found)[:80]} for {str(expected)[:80]}")
