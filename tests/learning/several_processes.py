"""Processes that train together, started by a test: what each of them returns or raises."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.learning.small_runs import pipe, start

from unspool.learning.ranks import MEETING
from unspool.runs.train import Trained, train

#: Seconds after which processes that should have ended are taken to hang.
LIMIT = 100.0


def together(folder: Path, count: int, function: Callable[..., Any], *arguments: Any) -> list[Any]:
    """What the function returns, or raises, in each of `count` processes; None in those that died."""
    number = len(list(folder.glob("meeting-*")))
    (folder / f"meeting-{number}").touch()
    meeting = f"file://{folder}/meeting-{number}.store"
    ours, theirs = zip(*(pipe() for _ in range(count)), strict=True)
    members = [start(_join, theirs[rank], rank, count, meeting, function, arguments) for rank in range(count)]
    for end in theirs:
        end.close()
    try:
        return [_receive(end) for end in ours]
    finally:
        for member in members:
            member.join(LIMIT)
            member.kill()


def _receive(end: Any) -> Any:
    assert end.poll(LIMIT), "the processes hang"
    try:
        return pickle.loads(end.recv_bytes())
    except EOFError:
        return None


def _join(
    end: Any, rank: int, count: int, meeting: str, function: Callable[..., Any], arguments: tuple[Any, ...]
) -> None:
    os.environ |= {"RANK": str(rank), "WORLD_SIZE": str(count), MEETING: meeting, "GLOO_SOCKET_IFNAME": "lo"}
    try:
        found = function(*arguments)
    except Exception as error:
        found = error
    end.send_bytes(pickle.dumps(found))  # `send` would share a tensor's memory, which ends with this process


def run_training(text: Path | None, run: Path, options: dict[str, Any]) -> Any:
    """Train, and say what came of it."""
    trained = train(text, out=run, **{"resume": text is None, **options})
    return summary(trained)


def summary(trained: Trained) -> dict[str, Any]:
    return {
        "weights": {name: tensor.clone() for name, tensor in trained.learner.state_dict().items()},
        "step": trained.finished.step,
        "reason": trained.finished.reason,
    }
