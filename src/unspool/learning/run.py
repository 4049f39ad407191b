"""The folder of a run: its config, the best model, checkpoints, figures; everything in it is whole at any moment."""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

import tomli_w
from torch import Tensor

from unspool.errors import ArgumentError, DataError, StorageError
from unspool.learning.events import Event
from unspool.learning.files import read_tensors, write_file, write_tensors

#: Changes when an older unspool cannot read what a newer one writes.
FORMAT = 1
CHECKPOINT = re.compile(r"step-(\d+)\.safetensors")
LOGS = ("metrics.jsonl", "samples.txt")


class RunFolder:
    """`config.toml`, `model.safetensors` (the best so far), `checkpoints/`, `metrics.jsonl`, `samples.txt`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock: int | None = None

    @classmethod
    def create(cls, path: Path, force: bool) -> Self:
        """A new run's folder; one that exists is taken only if it is empty, or a run's and `force` says so."""
        check_free(path, force)
        try:
            if path.exists():
                for part in path.iterdir():  # only of a run, or nothing
                    shutil.rmtree(part) if part.is_dir() and not part.is_symlink() else part.unlink()
            (path / "checkpoints").mkdir(parents=True)
        except OSError as error:
            raise StorageError(f"{path} cannot be made: {error.strerror}. Give another --out.") from error
        return cls(path)._locked()

    @classmethod
    def open(cls, path: Path) -> Self:
        """The folder of a run that was begun, to go on with it."""
        check_run(path)
        return cls(path)._locked()

    def write_config(self, config: Mapping[str, Any]) -> None:
        """Keep the run's settings."""
        write_file(self.path / "config.toml", tomli_w.dumps({"format": FORMAT, **config}).encode())

    def write_best(self, tensors: Mapping[str, Tensor], facts: Mapping[str, Any]) -> None:
        """Keep the best weights so far."""
        write_tensors(self.path / "model.safetensors", tensors, {"unspool": json.dumps(facts)})

    def write_checkpoint(self, step: int, tensors: Mapping[str, Tensor], facts: Mapping[str, Any]) -> Path:
        """Keep everything that training needs to go on from here."""
        path = self.path / "checkpoints" / f"step-{step:09d}.safetensors"
        sizes = {name: size_of(self.path / name) for name in LOGS}
        write_tensors(path, tensors, {"unspool": json.dumps({"format": FORMAT, "logs": sizes, **facts})})
        return path

    def read_checkpoint(self) -> tuple[dict[str, Tensor], dict[str, Any]] | None:
        """The newest checkpoint that can be read; what was logged after it is taken back. None if there is none."""
        problem: DataError | None = None
        for path in reversed(self.checkpoints()):
            try:
                tensors, facts = read_tensors(path)
                found: dict[str, Any] = json.loads(facts["unspool"])
            except (DataError, KeyError, ValueError) as error:
                problem = problem or DataError(f"{path} is not a checkpoint: {error}")
                continue
            for name, size in found["logs"].items():
                if size_of(self.path / name) > size:
                    os.truncate(self.path / name, size)
            return tensors, found
        if problem is not None:
            raise problem
        return None

    def checkpoints(self) -> list[Path]:
        """The checkpoints, oldest first."""
        return sorted(path for path in (self.path / "checkpoints").glob("step-*") if CHECKPOINT.fullmatch(path.name))

    def forget_checkpoints(self, keep: int, best: int) -> None:
        """Remove all checkpoints but the newest `keep` and the one of step `best`."""
        for path in self.checkpoints()[:-keep]:
            if path.name != f"step-{best:09d}.safetensors":
                path.unlink(missing_ok=True)

    def log(self, event: Event) -> None:
        """A line in metrics.jsonl."""
        self._append("metrics.jsonl", json.dumps(_finite(event.as_json()), ensure_ascii=False) + "\n")

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
        try:
            with (self.path / name).open("a", encoding="utf-8") as stream:
                stream.write(text)
        except OSError as error:
            raise StorageError(
                f"{self.path / name} cannot be written: {error.strerror}. The checkpoints are untouched. Make room, "
                "then go on with --resume."
            ) from error

    def _locked(self) -> Self:
        """This process alone writes into the folder until it ends."""
        self._lock = os.open(self.path / "checkpoints", os.O_RDONLY)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self.close()
            raise ArgumentError.of(
                "out", str(self.path), "is being trained by another process", "Wait for it, or give another --out"
            ) from None
        return self


def check_free(path: Path, force: bool) -> None:
    """Refuse a folder that a new run must not take."""
    if path.exists() and not path.is_dir():
        raise ArgumentError.of("out", str(path), "is a file", "Give a folder")
    if not path.is_dir() or not any(path.iterdir()):
        return
    if not (path / "config.toml").is_file():
        raise ArgumentError.of("out", str(path), "exists and is not a run's folder", "Give another")
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
    if not isinstance(version, int):
        raise DataError(f"{path} is not a run's folder: its config.toml says no format.")
    if version > FORMAT:
        raise DataError(
            f"{path} was made by a newer unspool (format {version}; this one reads up to {FORMAT}). Update unspool."
        )
    return config


def size_of(path: Path) -> int:
    """How many bytes a file has; 0 if it is not there."""
    return path.stat().st_size if path.exists() else 0


def _finite(value: Any) -> Any:
    """JSON has no NaN and no ∞: null."""
    if isinstance(value, Mapping):
        return {key: _finite(part) for key, part in value.items()}
    return None if isinstance(value, float) and not abs(value) < float("inf") else value
