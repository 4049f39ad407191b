"""Sweeps whose trials are never trained: an engine that writes what it is told to, and what they search."""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from unspool.settings.search import Choices, Space, Span
from unspool.storage.files import make_folder
from unspool.sweeps.course import Goal
from unspool.sweeps.folder import SweepFolder
from unspool.sweeps.plan import Plan
from unspool.sweeps.space import Search
from unspool.sweeps.study import Study
from unspool.sweeps.trial import Answer, Order, run_trial

SPACES: dict[str, Space] = {
    "lr": Span(1e-4, 1e-2, log=True),
    "hidden": Span(8, 64, step=8),
    "cell": Choices(("lstm", "gru")),
}
BASE = {"lr": 1e-3, "hidden": 32, "cell": "lstm"}
GOAL = Goal("accuracy", True)

Script = Callable[[Order, int], Answer | Exception | None]


def evaluated(number: int, accuracy: float, of: int = 10) -> dict[str, Any]:
    """An evaluation as a run logs it."""
    place = {"step": 10 * number, "epoch": float(number), "fraction": number / of, "seconds": 0.5 * number}
    return {"event": "evaluated", **place, "validation": {"loss": 1 - accuracy, "accuracy": accuracy}}


def finished(accuracy: float, reason: str = "done") -> dict[str, Any]:
    """The end of a run as it logs it."""
    metrics = {} if reason == "interrupted" else {"loss": 1 - accuracy, "accuracy": accuracy}
    return {"event": "finished", "step": 100, "seconds": 5.0, "reason": reason, "validation": metrics, "test": metrics}


def log(run: Path, *events: dict[str, Any]) -> None:
    """Write the log of a run."""
    make_folder(run)
    (run / "metrics.jsonl").write_text("".join(json.dumps(event) + "\n" for event in events))


class UntilAsked(Future[Answer]):
    """A trial that ends, as interrupted, when it is asked to stop, unless it ended before."""

    def __init__(self, order: Order) -> None:
        super().__init__()
        self.request = SweepFolder(Path(order.sweep)).request(order.number)

    def done(self) -> bool:
        if not super().done() and self.request.exists():
            self.set_result(Answer(finished(0.0, "interrupted")))
        return super().done()


class Scripted:
    """An engine whose trials do what a script says: an answer, an exception, or None to go on until they are asked."""

    def __init__(self, script: Script, jobs: int = 1) -> None:
        self.script, self.jobs = script, jobs
        self.orders: list[Order] = []

    def count(self) -> int:
        return self.jobs

    def submit(self, order: Order) -> Future[Answer]:
        self.orders.append(order)
        times = sum(one.number == order.number for one in self.orders)
        future: Future[Answer] = UntilAsked(order)
        found = self.script(order, times)
        if isinstance(found, Exception):
            future.set_exception(found)
        elif found is not None:
            future.set_result(found)
        return future


def make_study(folder: SweepFolder, sampler: Any = "random", seed: int = 3) -> Study:
    """The study of a sweep in this folder."""
    make_folder(folder.path)
    return Study(folder.study, SPACES, more_is_better=True, sampler=sampler, seed=seed)


def make_plan(trials: int, prune: bool = False) -> Plan:
    """What to search, at random."""
    return Plan("classify", GOAL, Search(SPACES, BASE), trials, "random", prune, 3)


class InThisProcess:
    """An engine that trains each trial at once, in this process: no other has to import torch."""

    def count(self) -> int:
        return 1

    def submit(self, order: Order) -> Future[Answer]:
        future: Future[Answer] = Future()
        future.set_result(run_trial(order))
        return future
