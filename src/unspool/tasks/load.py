"""A run's folder as a model that can be used: its config, its task without the data, and the best weights."""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

from unspool.errors import DataError
from unspool.learning.contract import Learner, Task
from unspool.learning.faults import find_misfit
from unspool.learning.files import read_tensors
from unspool.learning.run import check_run
from unspool.tasks.config import Config, read_config


class Loaded(NamedTuple):
    """What a run came to."""

    config: Config
    task: Task
    learner: Learner


def load_run(run: str | Path) -> Loaded:
    """From a folder that `unspool train` made."""
    path = Path(run)
    config = read_config(check_run(path))
    task = restore_task(path, config)
    if not (path / "model.safetensors").exists():
        raise DataError(f"{path} has no model yet. Go on with it: unspool train {path} --resume.")
    tensors, _ = read_tensors(path / "model.safetensors")
    learner = task.make_learner(config.model)
    if misfit := find_misfit(learner, tensors):
        raise DataError(
            f"{path}: config.toml, or vocabulary.json, does not fit model.safetensors: {misfit}. Bring back those "
            "that the run was begun with."
        )
    learner.load_state_dict(tensors)
    return Loaded(config, task, learner.eval())


def restore_task(run: Path, config: Config) -> Task:
    """The task without its data, from what the run keeps."""
    path = run / "vocabulary.json"
    try:
        return config.task.restore(json.loads(path.read_text(encoding="utf-8")), config.data)
    except (OSError, ValueError, KeyError, TypeError) as error:
        if isinstance(error.__cause__, ImportError):  # nothing is wrong with the file
            raise
        said = error.strerror if isinstance(error, OSError) else str(error).partition(". ")[0].removesuffix(".")
        raise DataError(
            f"{path} cannot be read: {said}. Bring it back, or have it written anew from the run's data: unspool train "
            f"{run} --resume."
        ) from error


def is_kept(run: Path, config: Config) -> bool:
    """Whether what the model needs beside its weights is there and can be read."""
    try:
        restore_task(run, config)
    except DataError:
        return False
    return True
