"""The cache of what is made from files: folders that are made once, and seen whole or not at all."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import stat
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from unspool.errors import DataError

Made = TypeVar("Made")

#: In each folder: the checksums of its other files.
CHECKSUMS = "checksums.json"
DAY = 24 * 60 * 60


def made_once(room: str, key: str, make: Callable[[Path], None], load: Callable[[Path], Made]) -> Made:
    """What `load` finds in the folder of a key, which `make` fills if it is not there or no longer as it was made.

    `load` opens or maps whatever it needs later on: the folder may be gone when it returns. Any number of processes may
    ask for the same key at once; at worst several make it.
    """
    cache = _own_folder(room)
    if cache is not None and _is_whole(cache / key):
        with contextlib.suppress(OSError):  # another process may be replacing it
            return load(cache / key)
    try:
        workshop = Path(tempfile.mkdtemp(dir=cache, prefix=".making-"))
        try:
            new = workshop / "new"
            new.mkdir()
            make(new)
            (new / CHECKSUMS).write_text(json.dumps(_checksums(new)), encoding="utf-8")
            made = load(new)
            if cache is not None:
                _publish(new, cache / key, workshop / "old")
            return made
        finally:
            shutil.rmtree(workshop, ignore_errors=True)
    except OSError as error:
        raise DataError(
            f"{cache or tempfile.gettempdir()} cannot keep what is made from the data: {error.strerror or error}. "
            "Set UNSPOOL_CACHE to a folder with room."
        ) from error


def cache_folder() -> Path:
    """UNSPOOL_CACHE, or the user's cache; built kernels are kept there too."""
    chosen = os.environ.get("UNSPOOL_CACHE")
    return Path(chosen) if chosen else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "unspool"


def _own_folder(room: str) -> Path | None:
    """The cache's folder for one kind of thing; None, with a warning, where it cannot be written or others can."""
    try:
        folder = cache_folder() / room
        folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder.mkdir(mode=0o700, exist_ok=True)
        status = folder.stat()
        if hasattr(os, "getuid") and (status.st_uid != os.getuid() or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)):
            problem = f"{folder} can be written by others"
        elif not os.access(folder, os.W_OK | os.X_OK):
            problem = f"{folder} cannot be written"
        else:
            _sweep(folder)
            return folder
    except (OSError, RuntimeError) as error:  # RuntimeError: a user without a home
        problem = f"there is no cache ({error})"
    warnings.warn(
        f"{problem}; what is made from the data is not kept. Set UNSPOOL_CACHE to a folder of your own.",
        RuntimeWarning,
        stacklevel=3,
    )
    return None


def _sweep(folder: Path) -> None:
    """Remove what killed processes have left."""
    for left in folder.glob(".making-*"):
        with contextlib.suppress(OSError):
            if time.time() - left.stat().st_mtime > DAY:
                shutil.rmtree(left)


def _is_whole(folder: Path) -> bool:
    """Whether the folder is there with all that was written to it; disks and people lose some."""
    try:
        return bool(json.loads((folder / CHECKSUMS).read_bytes()) == _checksums(folder))
    except (OSError, ValueError):
        return False


def _checksums(folder: Path) -> dict[str, str]:
    found = {}
    for file in sorted(folder.iterdir()):
        if file.name != CHECKSUMS:
            with file.open("rb") as stream:
                found[file.name] = hashlib.file_digest(stream, "sha256").hexdigest()
    return found


def _publish(new: Path, folder: Path, old: Path) -> None:
    """Put a new folder in its place, where another process may just have put the same."""
    with contextlib.suppress(OSError):  # it is made in any case, only not kept
        if folder.exists() and not _is_whole(folder):
            folder.rename(old)
        new.rename(folder)
