"""A task whose every number is known beforehand: the loss is slope · w, and validation losses are a list."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import pytest
import torch
from torch import Tensor, nn

from unspool.learning.contract import Learner, Outcome
from unspool.learning.events import Event
from unspool.learning.loop import Loop
from unspool.learning.run_folder import RunFolder
from unspool.learning.stopping import Stop
from unspool.settings.training import Training
from unspool.tasks.contract import Batches, Task

CONFIG: dict[str, Any] = {"task": "toy", "data": {}, "model": {}, "training": {}}


class Slope(Learner):
    """w, from 0; a batch is the slope of its loss, and what is carried is the sum of the slopes."""

    def __init__(self) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.zeros(1))

    def forward(self, batch: Tensor, state: Tensor, teacher_forcing: float = 1.0) -> Outcome:
        return Outcome((batch * self.w).sum(), 1, state + batch, None)

    def initial_state(self, batch_size: int) -> Tensor:
        return torch.zeros(1)


class Slopes(Batches):
    """An epoch's slopes."""

    def __init__(self, slopes: Sequence[float]) -> None:
        self.slopes = slopes

    def __len__(self) -> int:
        return len(self.slopes)

    def __getitem__(self, number: int) -> Tensor:
        return torch.tensor([self.slopes[number]])


class Toy(Task):
    """The n-th reading of the validation data gives the n-th of `losses`, and then the last again and again."""

    name = "toy"
    unit = "slopes"
    digest = "slopes"

    def __init__(self, slopes: Sequence[float], losses: Sequence[float] = (1.0,)) -> None:
        self.slopes, self.losses, self.read = slopes, losses, 0

    @classmethod
    def prepare(cls, data: Any, seed: int) -> Self:
        raise NotImplementedError

    @classmethod
    def recognize(cls, glance: Any) -> None:
        return None

    def sequences(self) -> Any:
        raise NotImplementedError

    def material(self, learner: Any, extent: Any, source: Any = None) -> Any:
        raise NotImplementedError

    def describe(self) -> Mapping[str, str]:
        return {}

    def batches(self, rows: int, window: int | None, epoch: int, rank: int = 0, ranks: int = 1) -> Batches:
        return Slopes(self.slopes)

    def evaluate(self, learner: Any, part: str, rows: int = 1, limit: int | None = None) -> dict[str, float]:
        if part == "test":
            return {}
        self.read += 1
        return {"loss": self.losses[min(self.read, len(self.losses)) - 1]}

    def baselines(self, part: str = "validation") -> dict[str, dict[str, float]]:
        return {}

    def sample(self, learner: Any, seed: int) -> str:
        return f"w = {learner.w.item():g}"

    def dump(self) -> dict[str, Any]:
        return {}

    @classmethod
    def restore(cls, document: Mapping[str, Any], data: Any) -> Self:
        raise NotImplementedError

    def evaluate_files(self, learner: Any, source: Any) -> dict[str, float]:
        raise NotImplementedError


class SlowToy(Toy):
    """Slopes of 1, each of which takes four seconds of a clock that does nothing else."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__([1.0], [1 / reading for reading in range(1, 100)])  # the last model is the best
        self.seconds = 100.0
        monkeypatch.setattr(time, "monotonic", lambda: self.seconds)

    def batches(self, rows: int, window: int | None, epoch: int, rank: int = 0, ranks: int = 1) -> Batches:
        return SlowSlopes(self)


class SlowSlopes(Slopes):
    def __init__(self, task: SlowToy) -> None:
        super().__init__(task.slopes)
        self.task = task

    def __getitem__(self, number: int) -> Tensor:
        self.task.seconds += 4
        return super().__getitem__(number)


#: Descent by exactly rate · gradient.
PLAIN: dict[str, Any] = {"optimizer": "sgd", "schedule": "constant", "lr": 0.5, "clip": 0.0, "eval_every": 1000}


def make_loop(
    task: Task, *, learner: Learner | None = None, run: Path | None = None, **settings: Any
) -> tuple[Loop, list[Event]]:
    """A loop, and the events it tells of."""
    events: list[Event] = []
    folder = None if run is None else RunFolder(run)
    if folder is not None:
        folder.begin(CONFIG, overwrite=False)
    training = Training(**PLAIN | settings)
    return Loop(task, learner or Slope(), training, folder, events.append, Stop()), events


def weight(loop: Loop) -> float:
    """The toy's w."""
    assert isinstance(loop.learner, Slope)
    return loop.learner.w.item()
