"""Opens a run for the commands that use its model: with torch where that is installed, with the player otherwise."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeVar

from unspool.errors import DataError, DivergenceError
from unspool.storage.checkpoints import read_data_digest
from unspool.tasks.contract import Task
from unspool.tasks.plain_settings import PlainSettings
from unspool.tasks.text_generator import TextGenerator

T = TypeVar("T")
#: What loading a run with torch imports; where one is missing, the player loads it.
NEEDED = ("torch", "pydantic", "tomli_w", "filelock")


class Opened(ABC):
    """A run whose model can be used.

    Attributes:
        run: Its folder.
        task: Its task, without the data.
        model: Its best model, which answers what the task asks.
    """

    run: Path
    task: Task
    model: Any

    @abstractmethod
    def use(self, call: Callable[[], T]) -> T:
        """What `call` gives, which evaluates the model or predicts with it; NaN and infinity are explained."""

    @abstractmethod
    def own_data(self) -> Task:
        """The task with the data that the run was trained on; refused if it is missing or has changed."""


def open_run(run: Path, *, play: bool = False, int8: bool = False) -> Opened:
    """Open the best model of a run.

    Args:
        run: Its folder.
        play: Use the player also where torch is installed.
        int8: Round the matrices of the model to 8 bits, which only the player does.

    Raises:
        DataError: It is not the folder of a finished run, or is damaged.

    Example:
        opened = open_run(Path("runs/intents"))
        rows = opened.use(lambda: list(opened.task.predict_texts(opened.model, ["play some jazz"])))
    """
    if play or int8 or not has_torch():
        return PlayedRun(run, int8)
    return TorchRun(run)


def open_generator(run: Path, *, int8: bool = False) -> TextGenerator:
    """Open a run that generates text; refused where its task does not.

    Args:
        run: Its folder.
        int8: As for `open_run`.
    """
    if int8 or not has_torch():
        from unspool.runtime.run_player import load

        return load(run, int8=int8).generator()
    from unspool.runs.generator import TextGenerator as TorchGenerator

    return TorchGenerator.load(run)


def has_torch() -> bool:
    """Whether a run can be loaded with torch."""
    return all(find_spec(name) for name in NEEDED)


class TorchRun(Opened):
    """A run that torch computes."""

    def __init__(self, run: Path) -> None:
        from unspool.runs.load import load_run

        self.run = run
        self.config, self.task, self.model = load_run(run)

    def use(self, call: Callable[[], T]) -> T:
        """What `call` gives; the layer that gave NaN or infinity is named."""
        from unspool.runs.load import use

        return use(self.run, self.model, call)

    def own_data(self) -> Task:
        """The task with the run's data."""
        from unspool.learning.run_folder import RunFolder

        def read_digest() -> str | None:
            checkpoint = RunFolder(self.run).read_checkpoint()
            return None if checkpoint is None else str(checkpoint.facts["data"])

        config = self.config
        return prepare_own(self.run, lambda: config.task.prepare(config.data, config.training.seed), read_digest)


class PlayedRun(Opened):
    """A run that the player computes."""

    def __init__(self, run: Path, int8: bool) -> None:
        from unspool.runtime.run_player import load

        self.run, self.player = run, load(run, int8=int8)
        self.task, self.model = self.player.task, self.player.model

    def use(self, call: Callable[[], T]) -> T:
        """What `call` gives."""
        try:
            return call()
        except DivergenceError as error:
            raise self.player.diverged(error) from error

    def own_data(self) -> Task:
        """The task with the run's data."""
        config = self.player.config
        data, seed = PlainSettings.of(config["data"]), config["training"]["seed"]
        return prepare_own(self.run, lambda: type(self.task).prepare(data, seed), lambda: read_data_digest(self.run))


def prepare_own(run: Path, prepare: Callable[[], Task], read_digest: Callable[[], str | None]) -> Task:
    """The task with the data of a run; refused if that is missing or has changed.

    Args:
        run: The folder of the run.
        prepare: Reads the data.
        read_digest: Gives the digest of the data that the run was trained on; None where it is not known.
    """
    remedy = f"Restore it, or name a file: unspool evaluate {run} FILE."
    try:
        task = prepare()
    except DataError as error:
        raise DataError(f"the run's own data cannot be read: {error} {remedy}") from error
    if read_digest() not in (None, task.digest):
        raise DataError(f"the run's own data has changed since training. {remedy}")
    return task
