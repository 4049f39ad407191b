"""The folder of a run: config, best model, checkpoints, metrics; every file in it is complete at any moment."""

from __future__ import annotations

import json
import os
import re
import shutil
import tomllib
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, Self

import tomli_w
from torch import Tensor

from unspool.errors import ArgumentError, DataError
from unspool.learning.events import Event
from unspool.learning.files import (
    find_temporaries,
    make_folder,
    read_tensors,
    storing,
    sync,
    write_file,
    write_tensors,
)
from unspool.learning.lock import LOCK_NAME, FolderLock

#: Changes when an older unspool cannot read what a newer one writes.
FORMAT = 1
CHECKPOINT = re.compile(r"step-(\d+)\.safetensors")
METRICS = "metrics.jsonl"
LOGS = (METRICS, "samples.txt")
#: What a new run removes from the folder of an old one; nothing else, as people put their own files there.
REMOVED = ("checkpoints", "model.safetensors", "MODEL_CARD.md", "cell.json", "tensorboard", *LOGS)


class Checkpoint(NamedTuple):
    """The content of a checkpoint."""

    tensors: dict[str, Tensor]
    facts: dict[str, Any]
    damaged: tuple[Path, ...]  # newer checkpoints, which cannot be read


class RunFolder:
    """`config.toml`, `model.safetensors` (the best so far), `checkpoints/`, `metrics.jsonl`, `samples.txt`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = FolderLock(path)

    @classmethod
    def open(cls, path: Path) -> Self:
        """The folder of a run, to resume it."""
        check_run(path)
        folder = cls(path)
        folder._take()
        with storing(path):
            for left in (*find_temporaries(path), *find_temporaries(path / "checkpoints")):
                left.unlink(missing_ok=True)
        return folder

    def begin(self, config: Mapping[str, Any], overwrite: bool, cells: str = "") -> None:
        """Make the folder a new run's. One that exists must be empty, or, with `overwrite`, the folder of a run."""
        make_folder(self.path)
        self._take()
        try:
            check_free(self.path, overwrite)  # no other process can start here now
        except BaseException:
            self.close()
            raise
        with storing(self.path):
            for name in REMOVED:
                part = self.path / name
                shutil.rmtree(part) if part.is_dir() and not part.is_symlink() else part.unlink(missing_ok=True)
            for left in find_temporaries(self.path):
                left.unlink(missing_ok=True)
        if cells:  # before the config that names them
            write_file(self.path / "cell.json", cells.encode())
        self.write_config(config)

    def write_config(self, config: Mapping[str, Any]) -> None:
        """Write the settings of the run."""
        write_file(self.path / "config.toml", tomli_w.dumps({"format": FORMAT, **config}).encode())

    def write_task(self, document: Mapping[str, Any]) -> None:
        """Write what the model needs besides its weights: vocabularies, labels, scales."""
        write_file(self.path / "vocabulary.json", json.dumps(document, ensure_ascii=False, indent=1).encode())

    def write_best(self, tensors: Mapping[str, Tensor], facts: Mapping[str, Any]) -> None:
        """Write the best weights so far."""
        write_tensors(self.path / "model.safetensors", tensors, facts)

    def write_checkpoint(self, step: int, tensors: Mapping[str, Tensor], facts: Mapping[str, Any]) -> Path:
        """Write everything that training needs to resume from here."""
        path = self._checkpoint(step)
        make_folder(path.parent)
        with storing(path):
            for log in self._logs():
                sync(log)
        sizes = {log.name: log.stat().st_size for log in self._logs()}
        write_tensors(path, tensors, {"format": FORMAT, "logs": sizes, **facts})
        return path

    def read_checkpoint(self) -> Checkpoint | None:
        """The newest checkpoint that can be read; None if there is none at all."""
        damaged: list[Path] = []
        problem: Exception | None = None
        for path in reversed(self.checkpoints()):
            try:
                tensors, facts = read_tensors(path)
                version: int = facts["format"]
            except (DataError, KeyError) as error:
                problem = problem or error
                damaged.append(path)
                continue
            _check_version(path, version)
            return Checkpoint(tensors, facts, tuple(damaged))
        if problem is not None:
            raise DataError(
                f"none of the {len(damaged)} checkpoint(s) of {self.path} can be read: {problem} Start again with "
                "`overwrite=True`."
            )
        if (self.path / "model.safetensors").exists():  # it must not be trained again by mistake
            raise DataError(
                f"{self.path} has a model, but no checkpoint to resume from. Restore its checkpoints, or start "
                "again with `overwrite=True`."
            )
        return None

    def truncate_logs(self, sizes: Mapping[str, int]) -> None:
        """Remove from the logs what was written after they had these sizes."""
        for log in self._logs():
            with storing(log):
                if log.stat().st_size > sizes.get(log.name, 0):
                    os.truncate(log, sizes.get(log.name, 0))

    def checkpoints(self) -> list[Path]:
        """The checkpoints, oldest first."""
        return sorted(path for path in (self.path / "checkpoints").glob("step-*") if CHECKPOINT.fullmatch(path.name))

    def remove_checkpoints(self, step: int, keep: int, best: int) -> None:
        """Remove all but the best checkpoint and the newest `keep` up to `step`; later ones are damaged."""
        found = self.checkpoints()
        kept = [path for path in found if path <= self._checkpoint(step)][-keep:]
        for path in found:
            if path not in kept and path != self._checkpoint(best):
                with storing(path):
                    path.unlink(missing_ok=True)

    def log(self, event: Event) -> None:
        """Add a line to metrics.jsonl."""
        self._append(METRICS, json.dumps(event.as_json(), ensure_ascii=False) + "\n")

    def log_sample(self, step: int, text: str) -> None:
        """Add a sample to samples.txt."""
        self._append("samples.txt", f"── step {step} ──\n{text}\n\n")

    def write_card(self, text: str) -> None:
        """Write the model card."""
        write_file(self.path / "MODEL_CARD.md", text.encode())

    def close(self) -> None:
        """Release the folder to other processes."""
        self._lock.release()

    def _append(self, name: str, text: str) -> None:
        path = self.path / name
        size = path.stat().st_size if path.exists() else 0
        with storing(path):
            try:
                with path.open("a", encoding="utf-8") as stream:
                    stream.write(text)
            except OSError:
                with suppress(OSError):
                    os.truncate(path, size)
                raise

    def _logs(self) -> list[Path]:
        return [self.path / name for name in LOGS if (self.path / name).exists()]

    def _checkpoint(self, step: int) -> Path:
        return self.path / "checkpoints" / f"step-{step:09d}.safetensors"

    def _take(self) -> None:
        """Lock the folder: this process alone writes into it until it ends."""
        with storing(self.path):
            taken = self._lock.acquire()
        if not taken:
            raise ArgumentError.of(
                "out", str(self.path), "is being trained by another process", "Wait for it, or give another `out`"
            )


def check_free(path: Path, overwrite: bool) -> None:
    """Refuse a folder that a new run must not use."""
    if path.exists() and not path.is_dir():
        raise ArgumentError.of("out", str(path), "is a file", "Give a folder")
    with storing(path):
        leftovers = {path / LOCK_NAME, *find_temporaries(path, "config.toml")}
        if not path.is_dir() or leftovers.issuperset(path.iterdir()):
            return
    try:
        check_run(path)
    except DataError as error:
        raise ArgumentError.of(
            "out", str(path), "exists and is not the folder of a run that this unspool can read", "Give another"
        ) from error
    if not overwrite:
        raise ArgumentError.of(
            "out",
            str(path),
            "exists",
            "Give another, resume it with `resume=True`, or replace it with `overwrite=True`",
        )


def check_run(path: Path) -> dict[str, Any]:
    """The config of a run; a clear error if the folder is not that of a run."""
    if not path.is_dir():
        raise DataError(f"there is no run {path}. Give the folder of a run.")
    if not (path / "config.toml").is_file():
        raise DataError(f"{path} is not the folder of a run: it has no config.toml. Give the folder of a run.")
    try:
        config = tomllib.loads((path / "config.toml").read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DataError(f"{path / 'config.toml'} cannot be read: {error}. Correct it.") from error
    version = config.pop("format", None)
    if not isinstance(version, int) or not {"task", "data", "model", "training"} <= config.keys():
        raise DataError(f"{path} is not the folder of a run: its config.toml is not that of a run.")
    _check_version(path, version)
    return config


def _check_version(path: Path, version: int) -> None:
    if version > FORMAT:
        raise DataError(
            f"{path} was made by a newer unspool (format {version}; this one reads up to {FORMAT}). Update unspool."
        )
