"""What all estimators share: settings from parameters, training in memory, and pickles without code."""

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

from unspool.cells import Cell, load_cells
from unspool.data.sequences import Indices, divide
from unspool.errors import ArgumentError
from unspool.estimators.documentation import document_parameters
from unspool.learning.events import Evaluated, Event
from unspool.learning.loop import Loop
from unspool.learning.stopping import Stop
from unspool.models.catalogue import make_learner
from unspool.runs.cells import dump_cells, with_cells
from unspool.runs.config import Config, read_config
from unspool.runs.embeddings import make_model
from unspool.runs.fitting import fit_to_data
from unspool.runs.train import plan

#: A cell by name, a cell, or a class of cells.
AnyCell = str | Cell | type[Cell]
#: Stands for the files of a task's data, where there are none.
IN_MEMORY = ("memory",)
#: Settings of files and run folders, and those that have another name here.
ELSEWHERE = (
    *("files", "test", "split_seed", "features", "target", "future_covariates", "past_covariates"),
    *("seed", "save_total_limit", "checkpoint_every", "baselines"),
)
#: Attributes that a fitted estimator keeps as JSON and bytes when it is pickled.
LIVE = ("config_", "task_", "learner_")
#: torch has one stream of random numbers for all threads: those of a parallel search train one after the other.
_LEARNING = Lock()


class Divisible(Protocol):
    """Examples in memory."""

    def __len__(self) -> int: ...

    def take(self, indices: Indices, /) -> Any:
        """Some of them, in this order."""


class Estimator(BaseEstimator):  # type: ignore[misc]
    """A model of a task with `fit` and `predict`. Its parameters are settings of the task; `fit` checks them."""

    #: The name of the task.
    task: ClassVar[str]
    #: Whether `validation` may be 0: the best model is then chosen by its metrics on the training data.
    may_skip_validation: ClassVar[bool] = True
    #: By parameter, what data in memory adds to the help of the setting.
    notes: ClassVar[Mapping[str, str]] = {
        "validation": "Of data in memory, a fraction; with 0 the best model is chosen by its metrics on training data."
    }

    validation: float | None
    verbose: bool
    config_: Config
    task_: Any
    learner_: Any
    history_: list[dict[str, Any]]

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "task" in cls.__dict__:
            document_parameters(cls, cls.task, cls.notes)

    # ── training ──

    def _plan(self, **data: Any) -> Config:
        """The checked settings; where a parameter is None, the task's default."""
        given = {name: _plain(value) for name, value in self.get_params(deep=False).items()}
        random_state, settings, _ = (given.pop(name) for name in ("random_state", "settings", "verbose"))
        further = _check_further(settings, given)
        if self.may_skip_validation and given["validation"] == 0:
            del given["validation"]
        given["seed"] = int(check_random_state(random_state).randint(np.iinfo(np.int32).max))
        return plan(list(IN_MEMORY), task=self.task, **given, **further, **data)

    def _learn(self, config: Config, given: Any) -> Self:
        """Train on data in memory, in the form that `of` of the task takes."""
        self.history_ = []
        seed = config.training.seed
        with _LEARNING, torch.random.fork_rng(devices=[]):
            task = config.task.of(given, config.data, seed=seed)  # type: ignore[attr-defined]
            config = fit_to_data(config, task)
            torch.manual_seed(seed)
            learner, _ = make_model(task, config)
            Loop(task, learner, config.training, None, self._hear, Stop()).run()
        self.config_, self.learner_ = config, learner.eval()
        self.task_ = config.task.restore(task.dump(), config.data)  # without the training data
        return self

    def _divide(self, examples: Divisible, config: Config, kept: Indices | Sequence[int]) -> dict[str, Any]:
        """Training and validation data; the examples `kept` are for training.

        Where nothing is to be validated on, or nothing is left for it, both are the same.
        """
        fraction = config.data.validation
        if not isinstance(fraction, float):
            raise ArgumentError.of("validation", fraction, "is not a fraction", "Give a number from 0 to below 1")
        rows = np.arange(len(examples))
        free = np.setdiff1d(rows, kept)
        if self.validation == 0 or len(free) < 2:
            return {"training": examples, "validation": examples}
        drawn = free[divide(len(free), fraction, 0.0, config.training.seed)[1]]
        return {"training": examples.take(np.setdiff1d(rows, drawn)), "validation": examples.take(drawn)}

    def _hear(self, event: Event) -> None:
        if not isinstance(event, Evaluated):
            return
        metrics = {"epoch": event.epoch, "training": event.training, **event.validation}
        self.history_.append(metrics)
        if self.verbose:
            line = " · ".join(f"{name} {value:.4g}" for name, value in metrics.items() if value is not None)
            print(line + " · best so far" * event.best, flush=True)

    # ── predicting ──

    def _answers(self, given: Any) -> list[Any]:
        """The task's answer to each example."""
        part = self.task_.part(given)
        found: list[Any] = self.task_.infer(self.learner_, part, np.arange(len(part.lengths)))[1]
        return found

    # ── pickling ──

    def __getstate__(self) -> dict[str, Any]:
        """Parameters, plain attributes, JSON and the bytes of tensors: unpickling runs no code of a model."""
        state: dict[str, Any] = super().__getstate__()
        if "learner_" in state:
            state = {name: value for name, value in state.items() if name not in LIVE}
            documents = {"config": self.config_.dump(), "task": self.task_.dump()}
            state["fitted"] = {name: json.dumps(document) for name, document in documents.items()}
            state["fitted"]["cells"] = dump_cells(self.config_)
            state["fitted"]["weights"] = safetensors.torch.save(self.learner_.state_dict())
        return state

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        rest = dict(state)
        fitted = rest.pop("fitted", None)
        super().__setstate__(rest)
        if fitted is not None:
            own = load_cells(fitted["cells"]) if fitted["cells"] else {}
            self.config_ = read_config(with_cells(json.loads(fitted["config"]), own))
            self.task_ = self.config_.task.restore(json.loads(fitted["task"]), self.config_.data)
            with torch.random.fork_rng(devices=[]):  # initial weights are drawn only to be replaced
                self.learner_ = make_learner(self.task_, self.config_.model).eval()
            self.learner_.load_state_dict(safetensors.torch.load(fitted["weights"]))


def _check_further(settings: Any, given: Mapping[str, Any]) -> dict[str, Any]:
    """The entries of the parameter `settings`; those that are parameters themselves, or have no effect, are refused."""
    if settings is not None and not isinstance(settings, Mapping):
        raise ArgumentError.of("settings", settings, "is not a dict", "Give names and values, as {'zoneout': 0.1}")
    further = {name: _plain(value) for name, value in (settings or {}).items()}
    for name in further:
        _check_name(name, settings, given)
    return further


def _check_name(name: str, settings: Any, given: Mapping[str, Any]) -> None:
    if name in given:
        raise ArgumentError.of("settings", settings, f"has {name!r}, which is a parameter", f"Give `{name}=…`")
    if name in ELSEWHERE or name.endswith("_column"):
        problem = f"has {name!r}, which has no effect on data in memory"
        raise ArgumentError.of("settings", settings, problem, "Leave it out")


def _plain(value: Any) -> Any:
    """A Python number for a NumPy scalar, which grids of parameters hold."""
    return value.item() if isinstance(value, np.generic) else value
