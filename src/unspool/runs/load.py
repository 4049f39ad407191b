"""Load a run folder: its config, its task without the data, and the model with its best weights."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from unspool.errors import DataError
from unspool.learning.contract import Learner
from unspool.learning.files import forms_of, read_tensors
from unspool.learning.nonfinite import diagnose
from unspool.learning.run_folder import RunFolder, read_origin
from unspool.models.catalogue import make_learner
from unspool.runs.cells import read_run_config
from unspool.runs.config import Config
from unspool.storage.documents import read_sealed
from unspool.storage.run import MODEL, VOCABULARY, check_run
from unspool.storage.tensors import Form, find_mismatch, read_header
from unspool.tasks.contract import Task
from unspool.tasks.divergence import diverged
from unspool.tasks.restoring import KEEP, restore

T = TypeVar("T")


class Loaded(NamedTuple):
    """A loaded run."""

    config: Config
    task: Task
    learner: Learner


def is_run(path: Path) -> bool:
    """Whether a folder is that of a run, maybe damaged: it has a config.toml of any kind, a model or checkpoints."""
    left = (path / "config.toml", path / MODEL)
    return os.path.isdir(path) and (any(map(os.path.lexists, left)) or bool(RunFolder(path).checkpoints()))


def load_run(run: str | Path) -> Loaded:
    """Load the best model of a run folder.

    Args:
        run: The folder that `unspool train` wrote.

    Returns:
        The config, the task without its data, and the model in evaluation mode.
    """
    path = Path(run)
    config = read_run_config(path)
    model = path / MODEL
    if not os.path.lexists(model):
        raise DataError(f"{path} has no model yet. Resume it with `resume=True`.")
    header = read_header(model)
    task = restore_task(path, config)
    read_origin(path, check_run(path)).check(header.facts, model)
    if misfit := find_mismatch(expected_forms(task, config), header.forms):
        raise DataError(
            f"{path}: config.toml, or vocabulary.json, does not fit model.safetensors: {misfit}. Restore the "
            "files that the run was started with."
        )
    tensors, _ = read_tensors(model)
    learner = make_learner(task, config.model)
    learner.load_state_dict(tensors)
    use(path, learner, lambda: None)  # refuses weights that are not finite
    return Loaded(config, task, learner.eval())


def expected_forms(task: Task, config: Config) -> dict[str, Form]:
    """What the header of a file with the model's weights says; no memory is taken, however large the model would be."""
    with torch.device("meta"), _Undrawn():
        return forms_of(make_learner(task, config.model).state_dict())


class _Undrawn(TorchFunctionMode):
    """Within, `torch.nn.init` leaves tensors as they are.

    Tensors without memory have no values to draw, and torch imports its compiler to draw none: a second of CPU time.
    """

    def __torch_function__(
        self, function: Any, types: Any, args: Any = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        given = kwargs or {}
        if getattr(function, "__module__", "") == nn.init.__name__ and "tensor" in given:
            return given["tensor"]
        return function(*args, **given)


def use(run: str | Path, learner: Learner, call: Callable[[], T]) -> T:
    """Use the model of a run.

    Args:
        run: Its folder.
        learner: Its model, as `load_run` gave it.
        call: Evaluates it, or predicts with it.

    Returns:
        What `call` gives.

    Raises:
        DivergenceError: The weights, or what the model computes, are not finite.

    Example:
        config, task, learner = load_run("runs/book")
        metrics = use("runs/book", learner, lambda: task.evaluate_files(learner, "other.txt"))
    """
    found, fault = diagnose(learner, call)
    if fault is not None:
        path = Path(run) / MODEL
        step = read_header(path).facts.get("step")
        raise diverged(path, step, fault) from fault.__cause__
    return found  # type: ignore[return-value]  # there is no fault


def restore_task(run: Path, config: Config) -> Task:
    """The task without its data, from the run's vocabulary.json."""
    return restore(config.task, run / VOCABULARY, read_sealed(run / VOCABULARY, KEEP), config.data)


def is_kept(run: Path, document: Mapping[str, Any]) -> bool:
    """Whether vocabulary.json is there and holds this document."""
    try:
        return read_sealed(run / VOCABULARY, "") == document
    except DataError:
        return False
