"""The same command in several processes: they start, stop and end together."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType

import torch

from unspool.cli.terminal import console
from unspool.learning.ranks import MEETING

#: Seconds that the others have to end by themselves when a process has failed, or someone has asked twice. After that
#: they are asked, asked again, and ended.
GRACE = 5.0
LOOK = 0.05


class Together:
    """Processes that run one command, each with a rank, and their first one's exit code."""

    def __init__(self, command: Sequence[str], count: int) -> None:
        self._command, self._count = command, count
        self._workers: list[subprocess.Popen[bytes]] = []
        self._asked = self._pressed = 0
        self._deadline: float | None = None

    def run(self) -> int:
        """Start them, pass on requests to stop, and wait; if one fails, none stays."""
        read, write = os.pipe()  # closed by the end of this process, however it ends: the others watch it
        with tempfile.TemporaryDirectory(prefix="unspool-") as folder, self._listening():
            try:
                for rank in range(self._count):
                    # a group of its own, so that a Ctrl-C reaches it once, from here
                    worker = subprocess.Popen(
                        self._command, env=self._environment(rank, folder), stdin=read, process_group=0
                    )
                    self._workers.append(worker)
                while self._look():
                    time.sleep(LOOK)
            finally:
                for worker in self._alive():
                    worker.kill()
                    worker.wait()
                os.close(read)
                os.close(write)
        return self._code()

    def _environment(self, rank: int, folder: str) -> dict[str, str]:
        own = {"RANK": str(rank), "LOCAL_RANK": str(rank), MEETING: f"file://{folder}/meeting"}
        size = {"WORLD_SIZE": str(self._count), "LOCAL_WORLD_SIZE": str(self._count)}
        chosen = {"OMP_NUM_THREADS": str(max(1, torch.get_num_threads() // self._count))}
        loops = [name for _, name in socket.if_nameindex() if name in ("lo", "lo0")]
        if loops:  # gloo would look the machine's own name up, which may not be known anywhere
            chosen["GLOO_SOCKET_IFNAME"] = loops[0]
        return {**chosen, **os.environ, **own, **size}

    def _alive(self) -> list[subprocess.Popen[bytes]]:
        return [worker for worker in self._workers if worker.poll() is None]

    def _look(self) -> bool:
        """Whether any is alive; if one has failed, the others get no more than their time."""
        alive = self._alive()
        failed = [(rank, worker.returncode) for rank, worker in enumerate(self._workers) if worker.returncode]
        if failed and self._deadline is None:
            self._deadline = time.monotonic() + GRACE
            self._tell_end(*failed[0])
        if self._deadline is not None and time.monotonic() > self._deadline:
            self._deadline += GRACE
            self._press(alive)
        return bool(alive)

    def _press(self, alive: Sequence[subprocess.Popen[bytes]]) -> None:
        """Ask the others to end; the third time they are not asked."""
        self._pressed += 1
        for worker in alive:
            worker.terminate() if self._pressed < 3 else worker.kill()

    def _tell_end(self, rank: int, code: int) -> None:
        """Say by which signal a process was ended, unless it was asked to end; another failure says so itself."""
        if code < 0 and not self._asked:
            how = signal.Signals(-code).name
            console(error=True).print(f"error: process {rank} of {self._count} was ended by {how}", style="red")

    def _code(self) -> int:
        first = self._workers[0].returncode
        if self._asked:
            return 130 if self._asked > 1 or first < 0 else first
        stopped = first == 130 and self._pressed  # by us, after another had failed
        return 1 if first < 0 or stopped else first

    @contextmanager
    def _listening(self) -> Iterator[None]:
        def ask(number: int, frame: FrameType | None) -> None:  # noqa: ARG001 - signal's own
            self._asked += 1
            if self._asked > 1:
                self._deadline = time.monotonic() + GRACE
            for worker in self._alive():
                worker.terminate()  # before it listens it ends by this without a word

        def pause(number: int, frame: FrameType | None) -> None:  # noqa: ARG001 - signal's own
            for worker in self._alive():
                worker.send_signal(signal.SIGSTOP)
            os.kill(os.getpid(), signal.SIGSTOP)
            for worker in self._alive():
                worker.send_signal(signal.SIGCONT)

        handlers = {signal.SIGINT: ask, signal.SIGTERM: ask, signal.SIGTSTP: pause}
        heard = [number for number in handlers if signal.getsignal(number) is not signal.SIG_IGN]
        before = {number: signal.signal(number, handlers[number]) for number in heard}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def watch_starter() -> None:
    """In a process that `Together` started: stop, as if asked to, when the one that started it is no more."""
    if MEETING not in os.environ:
        return

    def watch() -> None:
        os.read(sys.stdin.fileno(), 1)
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, daemon=True).start()
