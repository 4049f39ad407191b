"""The folder of a run: its config, the best model, checkpoints, figures; everything in it is whole at any moment."""

from __future__ import annotations

import fcntl
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

#: Changes when an older unspool cannot read what a newer one writes.
FORMAT = 1
CHECKPOINT = re.compile(r"step-(\d+)\.safetensors")
LOGS = ("metrics.jsonl", "samples.txt")
#: What a new run in the folder of an old one removes; nothing else, as people put their own files there.
REMOVED = ("checkpoints", "model.safetensors", "MODEL_CARD.md", "tensorboard", *LOGS)


class Checkpoint(NamedTuple):
    """What a checkpoint held."""

    tensors: dict[str, Tensor]
    facts: dict[str, Any]
    damaged: tuple[Path, ...]  # newer ones, which cannot be read


class RunFolder:
    """`config.toml`, `model.safetensors` (the best so far), `checkpoints/`, `metrics.jsonl`, `samples.txt`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock: int | None = None

    @classmethod
    def open(cls, path: Path) -> Self:
        """The folder of a run that was begun, to go on with it."""
        check_run(path)
        folder = cls(path)
        folder._take()
        with storing(path):
            for left in (*find_temporaries(path), *find_temporaries(path / "checkpoints")):
                left.unlink(missing_ok=True)
        return folder

    def begin(self, config: Mapping[str, Any], force: bool) -> None:
        """Make the folder a new run's; one that exists is taken only if it is empty, or a run's and `force` says so."""
        make_folder(self.path)
        self._take()
        check_free(self.path, force)  # no other process can begin here now
        with storing(self.path):
            for name in REMOVED:
                part = self.path / name
                shutil.rmtree(part) if part.is_dir() and not part.is_symlink() else part.unlink(missing_ok=True)
            for left in find_temporaries(self.path):
                left.unlink(missing_ok=True)
        self.write_config(config)

    def write_config(self, config: Mapping[str, Any]) -> None:
        """The settings of the run."""
        write_file(self.path / "config.toml", tomli_w.dumps({"format": FORMAT, **config}).encode())

    def write_task(self, document: Mapping[str, Any]) -> None:
        """Keep what the model needs beside its weights: vocabularies, labels, scales."""
        write_file(self.path / "vocabulary.json", json.dumps(document, ensure_ascii=False, indent=1).encode())

    def write_best(self, tensors: Mapping[str, Tensor], facts: Mapping[str, Any]) -> None:
        """Keep the best weights so far."""
        write_tensors(self.path / "model.safetensors", tensors, facts)

    def write_checkpoint(self, step: int, tensors: Mapping[str, Tensor], facts: Mapping[str, Any]) -> Path:
        """Keep everything that training needs to go on from here."""
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
                f"none of the {len(damaged)} checkpoint(s) of {self.path} can be read: {problem} Begin anew by --force."
            )
        if (self.path / "model.safetensors").exists():  # not begun anew by mistake, over what was trained
            raise DataError(
                f"{self.path} has a model, but no checkpoint to go on from. Bring its checkpoints back, or begin "
                "anew by --force."
            )
        return None

    def take_back(self, sizes: Mapping[str, int]) -> None:
        """Cut off the logs what was logged after they had these sizes."""
        for log in self._logs():
            with storing(log):
                if log.stat().st_size > sizes.get(log.name, 0):
                    os.truncate(log, sizes.get(log.name, 0))

    def checkpoints(self) -> list[Path]:
        """The checkpoints, oldest first."""
        return sorted(path for path in (self.path / "checkpoints").glob("step-*") if CHECKPOINT.fullmatch(path.name))

    def forget_checkpoints(self, step: int, keep: int, best: int) -> None:
        """Of the checkpoints up to `step` keep the newest `keep` and the best; later ones were damaged, and go too."""
        found = self.checkpoints()
        kept = [path for path in found if path <= self._checkpoint(step)][-keep:]
        for path in found:
            if path not in kept and path != self._checkpoint(best):
                with storing(path):
                    path.unlink(missing_ok=True)

    def log(self, event: Event) -> None:
        """A line in metrics.jsonl."""
        self._append("metrics.jsonl", json.dumps(event.as_json(), ensure_ascii=False) + "\n")

    def log_sample(self, step: int, text: str) -> None:
        """What the model said at a step, in samples.txt."""
        self._append("samples.txt", f"── step {step} ──\n{text}\n\n")

    def write_card(self, text: str) -> None:
        """The model card."""
        write_file(self.path / "MODEL_CARD.md", text.encode())

    def close(self) -> None:
        """Let others have the folder."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

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
        """This process alone writes into the folder until it ends."""
        with storing(self.path):
            self._lock = os.open(self.path, os.O_RDONLY)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self.close()
            raise ArgumentError.of(
                "out", str(self.path), "is being trained by another process", "Wait for it, or give another --out"
            ) from None
        except OSError:
            pass  # a file system without locks


def check_free(path: Path, force: bool) -> None:
    """Refuse a folder that a new run must not take."""
    if path.exists() and not path.is_dir():
        raise ArgumentError.of("out", str(path), "is a file", "Give a folder")
    with storing(path):
        if not path.is_dir() or not set(path.iterdir()).difference(find_temporaries(path, "config.toml")):
            return
    try:
        check_run(path)
    except DataError as error:
        raise ArgumentError.of(
            "out", str(path), "exists and is not a run's folder that this unspool can read", "Give another"
        ) from error
    if not force:
        raise ArgumentError.of(
            "out", str(path), "exists", "Give another, go on with it by --resume, or begin anew by --force"
        )


def check_run(path: Path) -> dict[str, Any]:
    """The config of a run's folder; a clear error if it is none."""
    if not path.is_dir():
        raise DataError(f"there is no run {path}. Give the folder that `unspool train` made.")
    if not (path / "config.toml").is_file():
        raise DataError(f"{path} is not a run's folder: it has no config.toml. Give one that `unspool train` made.")
    try:
        config = tomllib.loads((path / "config.toml").read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DataError(f"{path / 'config.toml'} cannot be read: {error}. Mend it.") from error
    version = config.pop("format", None)
    if not isinstance(version, int) or not {"task", "data", "model", "training"} <= config.keys():
        raise DataError(f"{path} is not a run's folder: its config.toml is not one that `unspool train` wrote.")
    _check_version(path, version)
    return config


def _check_version(path: Path, version: int) -> None:
    if version > FORMAT:
        raise DataError(
            f"{path} was made by a newer unspool (format {version}; this one reads up to {FORMAT}). Update unspool."
        )
