"""A process that works for this one: it is started, asked in JSON, one object per line, and ended."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from tempfile import TemporaryFile
from types import TracebackType
from typing import Any, Self, TextIO

from unspool.errors import TrainingError


class WorkerDiedError(TrainingError):
    """The process ended before it answered."""


class WorkerProcess:
    """A process that answers requests, one after the other; leaving the `with` block ends it.

    Args:
        module: what it runs, such as `unspool.lab.worker`. It reads requests from standard input.
        threads: that it may compute with; None leaves this to torch.
    """

    def __init__(self, module: str, threads: int | None) -> None:
        environment = dict(os.environ) if threads is None else {**os.environ, "OMP_NUM_THREADS": str(threads)}
        self.errors = TemporaryFile("w+", encoding="utf-8", errors="replace")  # noqa: SIM115 - closed by __exit__
        self.process = subprocess.Popen(
            [sys.executable, "-m", module],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            text=True,
            encoding="utf-8",
            env=environment,
            start_new_session=True,  # Ctrl-C is for the process that waits
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout, self.errors):
            if stream is not None:
                with suppress(OSError):  # what was not sent cannot be sent any more
                    stream.close()

    def kill(self) -> None:
        """End the process at once."""
        self.process.kill()

    def ask(self, request: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
        """The answers to a request; they end early if the process dies."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        try:
            self.process.stdin.write(json.dumps(request) + "\n")
            self.process.stdin.flush()
        except OSError:
            raise WorkerDiedError(self.last_words()) from None
        for line in self.process.stdout:
            yield json.loads(line)

    def last_words(self) -> str:
        """Why the process ended, as far as it said."""
        code = self.process.wait()
        self.errors.seek(0)
        said = [line for line in self.errors.read().splitlines() if line.strip()]
        return f"the process ended with {code}: {said[-1] if said else 'without a word'}"


def serve_starter(serve: Callable[[TextIO, TextIO], None]) -> None:
    """What the module of such a process does: it serves the process that started it, until that asks no more.

    Args:
        serve: Reads requests from the first stream and writes answers to the second. What it prints goes to standard
            error.
    """
    answers, sys.stdout = sys.stdout, sys.stderr
    try:
        serve(sys.stdin, answers)
    except KeyboardInterrupt:
        sys.exit(130)
