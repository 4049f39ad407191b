"""How fast does a server step many sessions, against one that steps them singly and against the player offline?

Every session has a WebSocket and sends steps in chunks. Contestants take turns; a number is the median of the rounds.
Before anything is timed, the answers of all sessions are compared with those of the player, to the bit.

    python benchmarks/serve.py                            # trains a model of the demo's size for a moment
    python benchmarks/serve.py runs/demo --json serve.json
    python benchmarks/serve.py --sessions 100 --steps 32 --rounds 1
"""

import argparse
import asyncio
import gc
import importlib
import itertools
import json
import os
import random
import re
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from unspool.runtime.run_player import RunPlayer, load
from unspool.runtime.together import Together

#: Sessions that open their connections at a time.
OPENING = 50
#: The first bytes of frames of the WebSocket's own.
PING, PONG = 0x89, 0x8A


class Caller:
    """One session over one WebSocket, by a bare socket: the load must not take the cores of the server."""

    def __init__(self, url: str) -> None:
        self.host, port = url.removeprefix("http://").split(":")
        self.port = int(port)

    async def open(self) -> None:
        """A new session and its WebSocket."""
        reader, writer = await asyncio.open_connection(self.host, self.port)
        head = f"POST /v1/sessions HTTP/1.1\r\nhost: {self.host}\r\ncontent-type: application/json\r\n"
        writer.write(f"{head}content-length: 2\r\n\r\n{{}}".encode())
        answer = (await reader.readuntil(b"\r\n\r\n")).lower()
        found = re.search(rb"content-length: (\d+)", answer)
        assert found, answer
        self.name = json.loads(await reader.readexactly(int(found[1])))["id"]
        writer.close()
        self.reader, self.writer = await asyncio.open_connection(self.host, self.port, limit=2**24)
        head = f"GET /v1/sessions/{self.name}/ws HTTP/1.1\r\nhost: {self.host}\r\nupgrade: websocket\r\n"
        key = "connection: upgrade\r\nsec-websocket-version: 13\r\nsec-websocket-key: MDEyMzQ1Njc4OWFiY2RlZg==\r\n\r\n"
        self.writer.write((head + key).encode())
        assert b" 101 " in await self.reader.readuntil(b"\r\n\r\n")
        self.reading = asyncio.create_task(self._read_all())

    async def ask(self, frame: bytes) -> bytes:
        """Send a frame and wait for the text of the answer."""
        self.answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self.writer.write(frame)
        answer = await self.answer
        assert b'"error"' not in answer, answer
        return answer

    async def _read_all(self) -> None:
        """Hand out answers, and answer the server's own questions whether the client still lives."""
        while True:
            kind, length = await self.reader.readexactly(2)
            if length == 126:
                (length,) = struct.unpack(">H", await self.reader.readexactly(2))
            elif length == 127:
                (length,) = struct.unpack(">Q", await self.reader.readexactly(8))
            content = await self.reader.readexactly(length)
            if kind == PING:
                self.writer.write(bytes([PONG, 0x80 | length]) + bytes(4) + content)
            else:
                self.answer.set_result(content)

    def close(self) -> None:
        """Leave."""
        self.reading.cancel()
        self.writer.transport.abort()


def frame(tokens: Sequence[int]) -> bytes:
    """A message that asks for steps, as a client sends it; the key of the mask is zero."""
    text = json.dumps({"do": "step", "inputs": list(tokens), "outputs": "last"}).encode()
    size = bytes([0x80 | len(text)]) if len(text) < 126 else b"\xfe" + struct.pack(">H", len(text))
    return b"\x81" + size + bytes(4) + text


class Load:
    """All sessions of one server.

    Args:
        url: Of the server.
        chunks: For each session, the tokens of a request.
    """

    def __init__(self, url: str, chunks: Sequence[Sequence[int]]) -> None:
        self.callers = [Caller(url) for _ in chunks]
        self.frames = [frame(chunk) for chunk in chunks]
        self.singles = [frame(chunk[:1]) for chunk in chunks]

    async def open(self) -> None:
        """Open all sessions."""
        for start in range(0, len(self.callers), OPENING):
            await asyncio.gather(*(one.open() for one in self.callers[start : start + OPENING]))

    async def ask_all(self, times: int) -> list[bytes]:
        """Every session asks so many times for its chunk; its last answers."""

        async def ask(caller: Caller, message: bytes) -> bytes:
            for _ in range(times - 1):
                await caller.ask(message)
            return await caller.ask(message)

        return await asyncio.gather(*map(ask, self.callers, self.frames))

    async def ask_singles(self, seconds: float, rate: float | None) -> list[float]:
        """Latencies of single steps of all sessions for some time: so many per second together, or all that can be."""
        found: list[float] = []
        pause = len(self.callers) / rate if rate else 0.0
        end = time.perf_counter() + seconds

        async def ask(caller: Caller, message: bytes, number: int) -> None:
            due = time.perf_counter() + pause * random.Random(number).random()
            while due < end and time.perf_counter() < end:
                await asyncio.sleep(max(0.0, due - time.perf_counter()))
                began = time.perf_counter()
                await caller.ask(message)
                found.append(time.perf_counter() - began)
                due = max(due + pause, began)

        await asyncio.gather(*map(ask, self.callers, self.singles, itertools.count()))
        return found

    def close(self) -> None:
        """Leave."""
        for one in self.callers:
            one.close()


@contextmanager
def serving(run: Path, sessions: int, batch_size: int) -> Iterator[str]:
    """A server in a process of its own; its address."""
    limits = {"--max-sessions": 4 * sessions, "--queue": 4 * sessions, "--batch-size": batch_size, "--timeout": 600}
    words = [str(word) for pair in limits.items() for word in pair]
    command = [sys.executable, "-m", "unspool", "serve", str(run), "--port", "0", "--no-access-log", *words]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None
        said = process.stderr.readline()
        found = re.search(r"http://\S+", said)
        assert found, said + process.stderr.read()
        yield found[0]
    finally:
        process.kill()
        process.communicate()


class Offline:
    """The player with all sessions in one batch."""

    def __init__(self, player: RunPlayer, chunks: Sequence[Sequence[int]]) -> None:
        self.sessions = [player.start() for _ in chunks]
        self.together, self.steps = Together(player), list(zip(*chunks, strict=True))
        self.together.join(self.sessions)

    def run(self) -> Any:
        """All steps of a chunk; the outputs after the last."""
        for inputs in self.steps:
            output = self.together.step(inputs)
        return output


async def check(load: Load, offline: Offline) -> None:
    """The answers of the server are those of the player, to the bit."""
    answers = await load.ask_all(1)
    for row, (answer, expected) in enumerate(zip(answers, offline.run(), strict=True)):
        assert json.loads(answer)["outputs"] == [expected.tolist()], f"session {row} differs from its replay"


def timed(call: Any) -> float:
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def measure(run: Path, options: argparse.Namespace) -> dict[str, Any]:
    """All contestants, in turns."""
    player, count, steps = load(run), options.sessions, options.steps
    gc.disable()  # rounds of this process over a thousand callers would look like the server's
    source = np.random.default_rng(0)
    chunks = source.integers(0, player.tokens, (count, steps)).tolist()
    offline = Offline(player, chunks)
    with ExitStack() as stack, asyncio.Runner() as runner:
        ask = runner.run
        batched, single = (
            Load(stack.enter_context(serving(run, count, batch_size)), chunks) for batch_size in (max(count, 1024), 1)
        )
        ask(batched.open())
        ask(check(batched, offline))
        batch_seconds = statistics.median(timed(lambda: offline.together.step(offline.steps[0])) for _ in range(30))
        rates: dict[str, list[float]] = {"server": [], "unbatched": [], "offline": []}
        ask(single.open())
        ask(single.ask_all(1))
        for _ in range(options.rounds):
            rates["server"].append(
                count * steps * options.requests / timed(lambda: ask(batched.ask_all(options.requests)))
            )
            rates["offline"].append(count * steps / timed(offline.run))
            rates["unbatched"].append(count * steps / timed(lambda: ask(single.ask_all(1))))
        full = ask(batched.ask_singles(options.seconds, None))
        rate = len(full) / options.seconds
        half = ask(batched.ask_singles(options.seconds, rate / 2))
        batched.close()
        single.close()
    found = {name: statistics.median(values) for name, values in rates.items()}
    p50, p99 = np.quantile(half, [0.5, 0.99]).tolist()
    return {
        **{"sessions": count, "steps": steps, "cores": os.cpu_count(), "steps_per_second": found},
        "over_unbatched": found["server"] / found["unbatched"],
        "of_offline": found["server"] / found["offline"],
        "offline_over_unbatched": found["offline"] / found["unbatched"],
        **{"batch_ms": 1000 * batch_seconds, "singles_per_second": rate},
        **{"half_load_p50_ms": 1000 * p50, "half_load_p99_ms": 1000 * p99, "p99_of_batch": p99 / batch_seconds},
    }


def tell(found: dict[str, Any]) -> None:
    """The findings, with their aims."""
    for name, rate in found["steps_per_second"].items():
        print(f"{name:10} {rate:12,.0f} steps per second")
    print(f"p50 of one step at half load: {found['half_load_p50_ms']:.2f} ms")
    print(
        f"over the unbatched server: {found['over_unbatched']:.1f}× (aim: at least 8; "
        f"the player without a server: {found['offline_over_unbatched']:.1f}×)"
    )
    print(f"of the player's offline batch: {found['of_offline']:.2f} (aim: at least 0.7)")
    print(
        f"p99 of one step at half of {found['singles_per_second']:,.0f} per second: "
        f"{found['half_load_p99_ms']:.1f} ms, "
        f"{found['p99_of_batch']:.2f}× the {found['batch_ms']:.1f} ms of a batch (aim: at most 3)"
    )


def train_small(folder: Path) -> Path:
    """A model of the demo's size, whose weights do not matter for the time; torch stays out of this process."""
    topics = importlib.import_module("pydoc_data.topics").topics
    text = folder / "reference.txt"
    text.write_text("\n".join(topics[name] for name in sorted(topics)))
    sizes = {"--hidden": 256, "--lr": 4e-3, "--batch-size": 32, "--bptt": 64, "--steps": 20, "--eval-every": 20}
    words = [str(word) for pair in sizes.items() for word in pair]
    command = [sys.executable, "-m", "unspool", "train", str(text), "--out", str(folder / "demo"), "--quiet", *words]
    subprocess.run(command, check=True)
    return folder / "demo"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", nargs="?", type=Path, help="A run folder of a language model.")
    parser.add_argument("--sessions", type=int, default=1000)
    parser.add_argument("--steps", type=int, default=256, help="Steps of a request.")
    parser.add_argument("--requests", type=int, default=2, help="Requests of a session in a round.")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=10.0, help="Of single steps.")
    parser.add_argument("--json", type=Path, help="Write the numbers there.")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="unspool-serve-") as name:
        found = measure(options.run or train_small(Path(name)), options)
    tell(found)
    if options.json:
        options.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
