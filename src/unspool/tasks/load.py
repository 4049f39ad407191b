"""A run's folder as a model that can be used: its config, its task without the data, and the best weights."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from unspool.errors import DataError
from unspool.learning.contract import Learner, Task
from unspool.learning.faults import find_misfit
from unspool.learning.files import read_tensors
from unspool.learning.run import check_run
from unspool.tasks.config import Config, read_config

#: The entry of vocabulary.json that says what all the others were.
SEAL = "digest"


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
        document = json.loads(path.read_text(encoding="utf-8"))
        if isinstance(document, dict) and (kept := document.pop(SEAL, None)) not in (None, _digest(document)):
            raise DataError(f"it was changed since the run wrote it (it is no longer of digest {kept:.8})")
        return config.task.restore(document, config.data)
    except (OSError, ValueError, KeyError, TypeError) as error:
        if isinstance(error.__cause__, ImportError):  # nothing is wrong with the file
            raise
        said = error.strerror if isinstance(error, OSError) else str(error).partition(". ")[0].removesuffix(".")
        raise DataError(
            f"{path} cannot be read: {said}. Bring it back, or have it written anew from the run's data: unspool train "
            f"{run} --resume."
        ) from error


def seal(document: Mapping[str, Any]) -> dict[str, Any]:
    """What a task keeps beside the weights, with a digest: other labels, or the same in another order, say nonsense."""
    return {**document, SEAL: _digest(document)}


def _digest(document: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()


def is_kept(run: Path, config: Config) -> bool:
    """Whether what the model needs beside its weights is there and can be read."""
    try:
        restore_task(run, config)
    except DataError:
        return False
    return True
