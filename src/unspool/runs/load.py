"""Load a run folder: its config, its task without the data, and the model with its best weights."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from unspool.errors import DataError
from unspool.learning.contract import Learner, Task
from unspool.learning.files import find_mismatch, read_tensors
from unspool.runs.cells import read_run_config
from unspool.runs.config import Config

#: The entry of vocabulary.json that is a digest of all others.
SEAL = "digest"


class Loaded(NamedTuple):
    """A loaded run."""

    config: Config
    task: Task
    learner: Learner


def is_run(path: Path) -> bool:
    """Whether a folder is that of a run."""
    return (path / "config.toml").is_file()


def load_run(run: str | Path) -> Loaded:
    """Load the best model of a run folder.

    Args:
        run: The folder that `unspool train` wrote.

    Returns:
        The config, the task without its data, and the model in evaluation mode.
    """
    path = Path(run)
    config = read_run_config(path)
    task = restore_task(path, config)
    if not (path / "model.safetensors").exists():
        raise DataError(f"{path} has no model yet. Resume it with `resume=True`.")
    tensors, _ = read_tensors(path / "model.safetensors")
    learner = task.make_learner(config.model)
    if misfit := find_mismatch(learner, tensors):
        raise DataError(
            f"{path}: config.toml, or vocabulary.json, does not fit model.safetensors: {misfit}. Restore the "
            "files that the run was started with."
        )
    learner.load_state_dict(tensors)
    return Loaded(config, task, learner.eval())


def restore_task(run: Path, config: Config) -> Task:
    """The task without its data, from the run's vocabulary.json."""
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
            f"{path} cannot be read: {said}. Restore it, or resume the run with `resume=True`, which writes it again."
        ) from error


def seal(document: Mapping[str, Any]) -> dict[str, Any]:
    """What a task keeps beside the weights, with a digest: other labels, or another order, give wrong predictions."""
    return {**document, SEAL: _digest(document)}


def _digest(document: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()


def is_kept(run: Path, config: Config) -> bool:
    """Whether vocabulary.json is there and can be read."""
    try:
        restore_task(run, config)
    except DataError:
        return False
    return True
