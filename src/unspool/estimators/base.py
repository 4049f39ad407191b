"""What all estimators have in common: settings from parameters, training in memory, and a state without code in it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from threading import Lock
from typing import Any, ClassVar, Protocol, Self

import numpy as np
import safetensors.torch
import torch
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state

from unspool.data.sequences import Rows, divide
from unspool.errors import ArgumentError
from unspool.learning.events import Evaluated, Event
from unspool.learning.loop import Loop
from unspool.learning.stopping import Stop
from unspool.tasks.config import Config, read_config
from unspool.tasks.train import plan

#: Files of a task's data, where there are none.
IN_MEMORY = ("memory",)
#: Settings that are for files and run folders, or have another name here.
ELSEWHERE = (
    *("files", "test", "split_seed", "features", "targets", "known", "unknown"),
    *("seed", "keep", "checkpoint_every", "baselines"),
)
#: Attributes that a fitted estimator keeps as JSON and bytes when it is pickled.
LIVE = ("config_", "task_", "learner_")
#: torch has one stream of random numbers for all threads: those of a parallel search learn one after the other.
_LEARNING = Lock()


class Divisible(Protocol):
    """Examples in memory."""

    def __len__(self) -> int: ...

    def take(self, rows: Rows, /) -> Any:
        """Some of them, in this order."""


class Estimator(BaseEstimator):  # type: ignore[misc]
    """A task's model with `fit` and `predict`; parameters are the task's settings, and are checked by `fit`."""

    #: The name of the task.
    task: ClassVar[str]
    #: Whether `validation` may be 0: the model is then chosen by what it has learned from.
    may_skip_validation: ClassVar[bool] = True

    validation: float | None
    verbose: bool
    config_: Config
    task_: Any
    learner_: Any
    history_: list[dict[str, Any]]

    # ── learning ──

    def _plan(self, **data: Any) -> Config:
        """The checked settings; a parameter that is None is as the task has it."""
        given = {name: _plain(value) for name, value in self.get_params(deep=False).items()}
        random_state, settings, _ = (given.pop(name) for name in ("random_state", "settings", "verbose"))
        if settings is not None and not isinstance(settings, Mapping):
            raise ArgumentError.of("settings", settings, "is not a dict", "Give names and values, as {'zoneout': 0.1}")
        further = {name: _plain(value) for name, value in (settings or {}).items()}
        for name in further:
            if name in given:
                raise ArgumentError.of("settings", settings, f"says {name}, which has a parameter", f"Give {name}=…")
            if name in ELSEWHERE or name.endswith("_column"):
                raise ArgumentError.of("settings", settings, f"says {name}, which nothing here reads", "Leave it out")
        if self.may_skip_validation and given["validation"] == 0:
            del given["validation"]
        given["seed"] = int(check_random_state(random_state).randint(np.iinfo(np.int32).max))
        return plan(list(IN_MEMORY), task=self.task, **given, **further, **data)

    def _learn(self, config: Config, given: Any) -> Self:
        """Train on data in memory, in the form that the task's `of` takes."""
        self.history_ = []
        seed = config.training.seed
        with _LEARNING, torch.random.fork_rng(devices=[]):
            task = config.task.of(given, config.data, seed=seed)  # type: ignore[attr-defined]
            torch.manual_seed(seed)
            learner = task.make_learner(config.model)
            Loop(task, learner, config.training, None, self._hear, Stop()).run()
        self.config_, self.learner_ = config, learner.eval()
        self.task_ = config.task.restore(task.dump(), config.data)  # without the training data
        return self

    def _divide(self, examples: Divisible, config: Config, kept: Rows | Sequence[int]) -> dict[str, Any]:
        """Training and validation data; the rows `kept` are for training.

        Where nothing shall be validated on, or nothing is left for it, both are the same.
        """
        share = config.data.validation
        if not isinstance(share, float):
            raise ArgumentError.of("validation", share, "is no share of the examples", "Give a number from 0 up to 1")
        rows = np.arange(len(examples))
        free = np.setdiff1d(rows, kept)
        if self.validation == 0 or len(free) < 2:
            return {"training": examples, "validation": examples}
        drawn = free[divide(len(free), share, 0.0, config.training.seed)[1]]
        return {"training": examples.take(np.setdiff1d(rows, drawn)), "validation": examples.take(drawn)}

    def _hear(self, event: Event) -> None:
        if not isinstance(event, Evaluated):
            return
        figures = {"epoch": event.epoch, "training": event.training, **event.validation}
        self.history_.append(figures)
        if self.verbose:
            told = " · ".join(f"{name} {value:.4g}" for name, value in figures.items() if value is not None)
            print(told + " · best so far" * event.best, flush=True)

    # ── answering ──

    def _answers(self, given: Any) -> list[Any]:
        """The task's answer to each example."""
        part = self.task_.part(given)
        found: list[Any] = self.task_.ask(self.learner_, part, np.arange(len(part.lengths)))[1]
        return found

    # ── keeping ──

    def __getstate__(self) -> dict[str, Any]:
        """Parameters, plain attributes, JSON and the bytes of tensors: whoever unpickles it runs no code of a model."""
        state: dict[str, Any] = super().__getstate__()
        if "learner_" in state:
            state = {name: value for name, value in state.items() if name not in LIVE}
            documents = {"config": self.config_.dump(), "task": self.task_.dump()}
            state["fitted"] = {name: json.dumps(document) for name, document in documents.items()}
            state["fitted"]["weights"] = safetensors.torch.save(self.learner_.state_dict())
        return state

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        rest = dict(state)
        fitted = rest.pop("fitted", None)
        super().__setstate__(rest)
        if fitted is not None:
            self.config_ = read_config(json.loads(fitted["config"]))
            self.task_ = self.config_.task.restore(json.loads(fitted["task"]), self.config_.data)
            with torch.random.fork_rng(devices=[]):  # initial weights are drawn only to be replaced
                self.learner_ = self.task_.make_learner(self.config_.model).eval()
            self.learner_.load_state_dict(safetensors.torch.load(fitted["weights"]))


def _plain(value: Any) -> Any:
    """NumPy's scalars, as grids of parameters hold them, as Python's."""
    return value.item() if isinstance(value, np.generic) else value
