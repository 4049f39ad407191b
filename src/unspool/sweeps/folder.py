"""The folder of a sweep: what is searched, the study, the trials, requests to stop, and the best run."""

from __future__ import annotations

import json
import secrets
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tomli_w

from unspool.errors import ArgumentError, DataError
from unspool.learning.lock import LOCK_NAME, FolderLock
from unspool.runs.cells import dump_cells
from unspool.runs.config import Config
from unspool.storage.documents import read_sealed, seal
from unspool.storage.files import find_temporaries, make_folder, storing, write_file
from unspool.storage.run import CELLS, FORMAT

PLAN = "sweep.json"
#: Characters of the number of a trial in the name of its folder.
DIGITS = 3


@dataclass(frozen=True)
class SweepFolder:
    """`sweep.json` (what is searched), `base.toml`, `study.log`, `trials/000/…`, `best/`, `sweep.html`."""

    path: Path

    @property
    def base(self) -> Path:
        """The settings that all trials share, as a config."""
        return self.path / "base.toml"

    @property
    def study(self) -> Path:
        """Optuna's journal."""
        return self.path / "study.log"

    @property
    def page(self) -> Path:
        """The page about the sweep."""
        return self.path / "sweep.html"

    @property
    def best(self) -> Path:
        """A copy of the best trial's run folder."""
        return self.path / "best"

    def trial(self, number: int) -> Path:
        """The run folder of a trial."""
        return self.path / "trials" / f"{number:0{DIGITS}}"

    def exists(self) -> bool:
        """Whether there is a sweep."""
        return (self.path / PLAN).is_file()

    def request(self, number: int) -> Path:
        """The file that asks a trial to stop."""
        return self.path / "stops" / f"{number:0{DIGITS}}"

    def ask_to_stop(self, number: int) -> None:
        """Ask a trial to save and stop, wherever it runs."""
        make_folder(self.path / "stops")
        write_file(self.request(number), b"")

    def forget_stops(self) -> None:
        """Withdraw all requests to stop."""
        with storing(self.path):
            shutil.rmtree(self.path / "stops", ignore_errors=True)

    def prepare(self, config: Config) -> None:
        """Write the settings that all trials share; with `sweep.json`, which is written last, there is a sweep."""
        cells = dump_cells(config)
        if cells:
            write_file(self.path / CELLS, cells.encode())
        write_file(self.base, tomli_w.dumps({"format": FORMAT, **config.dump()}).encode())
        make_folder(self.path / "trials")

    def write_plan(self, plan: Mapping[str, Any]) -> None:
        """Write what is searched."""
        write_file(self.path / PLAN, json.dumps(seal(plan), ensure_ascii=False, indent=1).encode())

    def read_plan(self) -> dict[str, Any]:
        """What is searched."""
        if not self.exists():
            raise ArgumentError.of("out", str(self.path), "is not the folder of a sweep", "Start one without `resume`")
        return dict(read_sealed(self.path / PLAN, "Restore it from a copy"))

    def keep_best(self, number: int) -> None:
        """Make `best/` a copy of a trial's run folder, whole or not at all."""
        mark = secrets.token_hex(4)
        new, old = self.path / f".best-{mark}", self.path / f".old-{mark}"
        with storing(self.best):
            shutil.copytree(self.trial(number), new, ignore=shutil.ignore_patterns(LOCK_NAME))
            if self.best.exists():
                self.best.rename(old)
            new.rename(self.best)
            shutil.rmtree(old, ignore_errors=True)

    def clean(self) -> None:
        """Remove what writes left that were cut off; for the process that has the lock."""
        with storing(self.path):
            for left in find_temporaries(self.path):
                left.unlink(missing_ok=True)
            for left in (*self.path.glob(".best-*"), *self.path.glob(".old-*")):
                shutil.rmtree(left, ignore_errors=True)


def take(folder: SweepFolder) -> FolderLock:
    """Lock a sweep's folder for this process; refused where another has it."""
    make_folder(folder.path)
    lock = FolderLock(folder.path)
    with storing(folder.path):
        taken = lock.acquire()
    if not taken:
        raise ArgumentError.of(
            "out", str(folder.path), "is in use: another process runs this sweep", "Wait for it, or give another `out`"
        )
    return lock


def check_free(folder: SweepFolder) -> None:
    """Refuse a folder that a new sweep must not use."""
    path = folder.path
    if path.exists() and not path.is_dir():
        raise ArgumentError.of("out", str(path), "is a file", "Give a folder")
    if folder.exists():
        raise ArgumentError.of("out", str(path), "has a sweep", "Give another, or resume it with `resume=True`")
    if path.is_dir() and {one.name for one in path.iterdir()} - {LOCK_NAME, "base.toml", "trials", CELLS}:
        raise ArgumentError.of("out", str(path), "exists and is not the folder of a sweep", "Give another")


def check_plan(path: Path, plan: Mapping[str, Any]) -> None:
    """Refuse a plan that another version wrote."""
    if plan.get("format") != FORMAT:
        raise DataError(f"{path} is of another version of unspool. Resume it with that version, or start a new sweep.")
