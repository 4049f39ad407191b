"""The folder of a run: config, best model, checkpoints, metrics; every file in it is complete at any moment."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, Self

import tomli_w
from torch import Tensor

from unspool.errors import ArgumentError, DataError
from unspool.learning.checkpoint_facts import check_facts
from unspool.learning.events import Event
from unspool.learning.files import read_tensors, write_tensors
from unspool.learning.lock import LOCK_NAME, FolderLock
from unspool.learning.origin import ENTRY, Origin
from unspool.storage.checkpoints import find_newest, list_checkpoints
from unspool.storage.documents import describe_kind, digest, read_sealed, read_text, seal
from unspool.storage.files import find_temporaries, make_folder, storing, sync, write_file
from unspool.storage.run import (
    CELLS,
    CONFIG,
    FORMAT,
    MODEL,
    NETWORK,
    VOCABULARY,
    check_run,
    check_version,
    read_run,
    read_version,
    refuse_newer,
)
from unspool.storage.tensors import Form, read_header

METRICS = "metrics.jsonl"
LOGS = (METRICS, "samples.txt")
#: What a run writes in its folder: files, and folders.
FILES = (CONFIG, VOCABULARY, NETWORK, CELLS, MODEL, "MODEL_CARD.md", *LOGS)
FOLDERS = ("checkpoints", "tensorboard")
#: What a new run removes from the folder of an old one; nothing else, as people put their own files there.
REMOVED = ("checkpoints", MODEL, "MODEL_CARD.md", CELLS, NETWORK, "tensorboard", *LOGS)


class Checkpoint(NamedTuple):
    """The content of a checkpoint."""

    path: Path
    tensors: dict[str, Tensor]
    facts: dict[str, Any]
    damaged: tuple[Path, ...]  # newer checkpoints, which cannot be read


class Outline(NamedTuple):
    """What a checkpoint says of itself."""

    path: Path
    forms: dict[str, Form]
    facts: dict[str, Any]


class RunFolder:
    """`config.toml`, `model.safetensors` (the best so far), `checkpoints/`, `metrics.jsonl`, `samples.txt`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = FolderLock(path)
        self.origin = Origin({})

    @classmethod
    def open(cls, path: Path) -> Self:
        """The folder of a run, to resume it."""
        config = check_run(path)
        _check_own(path)
        folder = cls(path)
        folder.origin = read_origin(path, config)
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
        self._clear()
        if cells:  # before the config that names them
            write_file(self.path / CELLS, cells.encode())
        self.origin = Origin(config, cells)
        self.write_config(config)

    def _clear(self) -> None:
        """Remove what an earlier run left."""
        with storing(self.path):
            for name in REMOVED:
                part = self.path / name
                shutil.rmtree(part) if part.is_dir() and not part.is_symlink() else part.unlink(missing_ok=True)
            for left in find_temporaries(self.path):
                left.unlink(missing_ok=True)

    def write_config(self, config: Mapping[str, Any]) -> None:
        """Write the settings of the run."""
        write_file(self.path / CONFIG, tomli_w.dumps({"format": FORMAT, **config}).encode())

    def write_task(self, document: Mapping[str, Any]) -> None:
        """Write what the model needs besides its weights: vocabularies, labels, scales."""
        self.origin.vocabulary = digest(document)
        write_file(self.path / VOCABULARY, json.dumps(seal(document), ensure_ascii=False, indent=1).encode())

    def write_network(self, document: Mapping[str, Any]) -> None:
        """Write the model as data, with what its weights are made with, so that no other weights are taken for them."""
        content = seal({**document, ENTRY: self.origin.facts()})
        write_file(self.path / NETWORK, json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode())

    def holds_network(self, document: Mapping[str, Any]) -> bool:
        """Whether network.json is there and holds this document."""
        try:
            return read_sealed(self.path / NETWORK, "") == {**document, ENTRY: self.origin.facts()}
        except DataError:
            return False

    def write_best(self, tensors: Mapping[str, Tensor], facts: Mapping[str, Any]) -> None:
        """Write the best weights so far."""
        write_tensors(self.path / MODEL, tensors, {ENTRY: self.origin.facts(), **facts})

    def write_checkpoint(self, step: int, tensors: Mapping[str, Tensor], facts: Mapping[str, Any]) -> Path:
        """Write everything that training needs to resume from here."""
        path = self._checkpoint(step)
        make_folder(path.parent)
        with storing(path):
            for log in self._logs():
                sync(log)
        sizes = {log.name: log.stat().st_size for log in self._logs()}
        write_tensors(path, tensors, {"format": FORMAT, "logs": sizes, ENTRY: self.origin.facts(), **facts})
        return path

    def read_checkpoint(self) -> Checkpoint | None:
        """The newest checkpoint that can be read; None if there is none at all."""
        newest = find_newest(self.path, _read_checkpoint)
        return None if newest is None else Checkpoint(newest.path, *newest.content, newest.damaged)

    def read_outline(self) -> Outline | None:
        """What the newest checkpoint that seems whole says of itself, before any tensor is read; None if none does."""
        for path in reversed(self.checkpoints()):
            try:
                header = read_header(path)
                version = _check_facts(path, header.facts)
            except DataError:
                continue
            check_version(path, version)
            return Outline(path, *header)
        return None

    def truncate_logs(self, sizes: Mapping[str, int]) -> None:
        """Remove from the logs what was written after they had these sizes."""
        for log in self._logs():
            with storing(log):
                size, status = sizes.get(log.name, 0), log.stat()
                if status.st_nlink > 1:  # another name of the same file may be outside the folder
                    write_file(log, _start_of(log, size))
                elif status.st_size > size:
                    os.truncate(log, size)

    def checkpoints(self) -> list[Path]:
        """The checkpoints, oldest first."""
        return list_checkpoints(self.path)

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
                with open(path, "a", encoding="utf-8", opener=_open_own) as stream:
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
        leftovers = {path / LOCK_NAME, *find_temporaries(path, CONFIG)}
        if not path.is_dir() or leftovers.issuperset(path.iterdir()):
            return
    try:
        _, version = read_run(path)
        refuse_newer(path, version)  # a run of an older version may be replaced
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


def read_origin(path: Path, config: Mapping[str, Any]) -> Origin:
    """What the weights of a run were made with, from its files; a vocabulary that cannot be read is not known."""
    cells, vocabulary = "", None
    if os.path.isfile(path / CELLS):
        with suppress(OSError, ValueError):  # who needs the cells reports what is wrong with them
            cells = read_text(path / CELLS)
    with suppress(DataError):
        vocabulary = read_sealed(path / VOCABULARY, "")
    return Origin(config, cells, vocabulary)


def _read_checkpoint(path: Path) -> tuple[int, tuple[dict[str, Tensor], dict[str, Any]]]:
    """The format of a checkpoint, its tensors and its facts."""
    tensors, facts = read_tensors(path)
    return _check_facts(path, facts), (tensors, facts)


def _check_facts(path: Path, facts: Mapping[str, Any]) -> int:
    """The format of a checkpoint, whose facts are those of a run; of another format nothing else is known."""
    version = read_version(path, facts)
    if version == FORMAT:
        check_facts(path, facts)
    return version


def _check_own(path: Path) -> None:
    """Refuse to write where a name of the run's is not a plain file or folder: a link may lead anywhere."""
    for one in (*(path / name for name in (*FOLDERS, *FILES)), *list_checkpoints(path)):
        if os.path.lexists(one):
            _check_kind(one, "a folder" if one.name in FOLDERS else "a file")


def _check_kind(path: Path, wanted: str) -> None:
    kind = describe_kind(path.lstat().st_mode) or "a file"
    if kind != wanted:
        raise DataError(
            f"{path} is {kind}, and a run writes there only if it is {wanted}. Put {wanted} there, or remove it."
        )


def _open_own(path: str, flags: int) -> int:
    """Open a file for writing, but none that a link leads to."""
    return os.open(path, flags | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0), 0o666)


def _start_of(path: Path, size: int) -> bytes:
    with path.open("rb") as stream:
        return stream.read(size)
