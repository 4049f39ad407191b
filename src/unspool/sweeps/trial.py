"""One trial, on the side that computes it: an ordinary run, which goes on from its checkpoint wherever it was left."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from unspool.errors import StorageError, UnspoolError
from unspool.learning.lock import FolderLock
from unspool.learning.stopping import Stop
from unspool.runs.train import train
from unspool.storage.files import make_folder
from unspool.sweeps.course import read_course
from unspool.sweeps.folder import SweepFolder

#: Seconds between two looks for a request to stop, and for a lock to be released.
LOOK = 0.2
#: One trial at a time in a process: torch's random numbers and threads are the process's.
ALONE = threading.Lock()


@dataclass(frozen=True)
class Order:
    """What to train: the settings of a trial, besides those that all trials share.

    Attributes:
        sweep: The folder of the sweep, which must be the same on all machines.
        number: Of the trial.
        settings: Those of its settings that differ from the shared ones.
    """

    sweep: str
    number: int
    settings: Mapping[str, Any]

    def as_json(self) -> dict[str, Any]:
        """The order for another process."""
        return asdict(self)


@dataclass(frozen=True)
class Answer:
    """What became of a trial.

    Attributes:
        finished: The event with which training ended; its reason is "interrupted" where it can be resumed.
        problem: Why it failed, and would fail again.
        fatal: Why no trial can be trained, such as a full disk.
    """

    finished: Mapping[str, Any] | None = None
    problem: str = ""
    fatal: str = ""

    def as_json(self) -> dict[str, Any]:
        """The answer for another process."""
        return asdict(self)


class FileStop(Stop):
    """Asked to stop by a file, by a signal, or by the end of the process that started this one."""

    def __init__(self, file: Path) -> None:
        self._file, self._asked = file, False
        self._parent, self._looked = os.getppid(), 0.0

    @property
    def asked(self) -> bool:
        """Whether someone has asked to stop; the file is looked for now and then."""
        if not self._asked and time.monotonic() - self._looked > LOOK:
            self._looked = time.monotonic()
            self._asked = self._file.exists() or os.getppid() != self._parent
        return self._asked

    @asked.setter
    def asked(self, value: bool) -> None:
        self._asked = value


def run_trial(order: Order) -> Answer:
    """Train a trial from the start, or from where it was left; one that is finished is not trained again.

    Args:
        order: What to train.

    Returns:
        What became of it. Mistakes in the settings, data that cannot be read and divergence are problems of the trial.
    """
    folder = SweepFolder(Path(order.sweep))
    path = folder.trial(order.number)
    make_folder(path)
    with ALONE:
        torch.set_num_threads(1)
        _wait_for(path)
        if done := read_course(path).finished:
            return Answer(done)
        try:
            stop = FileStop(folder.request(order.number))
            trained = train(config=folder.base, out=path, resume=True, quiet=True, stop=stop, **order.settings)
        except StorageError as error:
            return Answer(fatal=str(error))
        except (UnspoolError, MemoryError) as error:
            return Answer(problem=str(error) or type(error).__name__)
    return Answer(trained.finished.as_json())


def _wait_for(run: Path) -> None:
    """Wait until no process has a run: a worker that was given up may not have noticed yet."""
    lock = FolderLock(run)
    while not lock.acquire():
        time.sleep(LOOK)
    lock.release()
