"""The checkpoints of a run on the disk: their names, the newest that can be read, and which data they are of."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Generic, NamedTuple, TypeVar

from unspool.errors import DataError
from unspool.storage.run import MODEL, check_version, read_version
from unspool.storage.tensors import read_header

T = TypeVar("T")
CHECKPOINT = re.compile(r"step-(\d+)\.safetensors")


class Newest(NamedTuple, Generic[T]):
    """The newest checkpoint that can be read."""

    path: Path
    content: T
    damaged: tuple[Path, ...]  # newer ones, which cannot be read


def list_checkpoints(run: Path) -> list[Path]:
    """The checkpoints of a run, oldest first."""
    return sorted(path for path in (run / "checkpoints").glob("step-*") if CHECKPOINT.fullmatch(path.name))


def find_newest(run: Path, read: Callable[[Path], tuple[int, T]]) -> Newest[T] | None:
    """The newest checkpoint of a run that can be read.

    Args:
        run: The folder.
        read: Reads one: its format and its content; a DataError where it is damaged.

    Returns:
        The checkpoint; None if there is none, and no model either.

    Raises:
        DataError: None can be read, there is a model without any, or another version wrote it.
    """
    problems: list[tuple[Path, DataError]] = []
    for path in reversed(list_checkpoints(run)):
        try:
            version, content = read(path)
        except DataError as error:
            problems.append((path, error))
            continue
        check_version(path, version)
        return Newest(path, content, tuple(damaged for damaged, _ in problems))
    if problems:
        raise DataError(
            f"none of the {len(problems)} checkpoint(s) of {run} can be read: {problems[0][1]} Start again with "
            "`overwrite=True`."
        ) from problems[0][1]
    if (run / MODEL).exists():  # it must not be trained again by mistake
        raise DataError(
            f"{run} has a model, but no checkpoint to resume from. Restore its checkpoints, or start again with "
            "`overwrite=True`."
        )
    return None


def read_data_digest(run: Path) -> str | None:
    """The digest of the data that a run was trained on, from the header of its newest checkpoint; None without any.

    Raises:
        DataError: As `find_newest`.
    """
    newest = find_newest(run, _read_digest)
    return None if newest is None else newest.content


def _read_digest(path: Path) -> tuple[int, str]:
    facts = read_header(path).facts
    digest = facts.get("data")
    if not isinstance(digest, str):
        raise DataError(f"{path} cannot be read: `data` is not a text. It is damaged; use an earlier one.")
    return read_version(path, facts), digest
