"""The cache of what is made from files: folders that are made once, seen whole or not at all, and not kept for ever."""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
import os
import shutil
import tempfile
import time
import warnings
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO, TypeVar

from unspool.cache import cache_folder, is_open_to_others
from unspool.errors import DataError

Made = TypeVar("Made")

#: In each folder: the checksums of its other files.
CHECKSUMS = "checksums.json"
#: An empty file: its time is when the folder was last used. Who uses it holds a lock on one of used-0, used-1, …
USED = "used"
HOUR = 60 * 60
DAY = 24 * HOUR
#: Bytes that the folders of one kind may take up together; beyond that those go that were not used for longest.
LIMIT = 4 << 30


def made_once(room: str, key: str, make: Callable[[Path], None], load: Callable[[Path], Made]) -> Made:
    """What `load` finds in the folder of a key, which `make` fills if it is not there or no longer as it was made.

    `load` opens or maps whatever it needs later on: the folder may be gone when it returns. Any number of processes may
    ask for the same key at once; at worst several make it. While what was loaded lives, its folder is not removed to
    make room for others.
    """
    cache = _own_folder(room)
    if cache is not None:
        # it may not be there, and another process may be replacing or removing it
        with contextlib.suppress(OSError), contextlib.ExitStack() as stack:
            mark = stack.enter_context(_use(cache / key))
            if _is_whole(cache / key):
                made = load(cache / key)
                stack.pop_all()
                return _held(made, mark)
    try:
        return _make_now(cache, key, make, load)
    except OSError as error:
        raise DataError(
            f"{cache or tempfile.gettempdir()} cannot keep what is made from the data: {error.strerror or error}. "
            "Set UNSPOOL_CACHE to a folder with room."
        ) from error


def _make_now(cache: Path | None, key: str, make: Callable[[Path], None], load: Callable[[Path], Made]) -> Made:
    """Make it in a folder of its own, which becomes that of the key where there is a cache."""
    workshop = Path(tempfile.mkdtemp(dir=cache, prefix=".making-"))
    try:
        new = workshop / "new"
        new.mkdir()
        make(new)
        (new / CHECKSUMS).write_text(json.dumps(_checksums(new)), encoding="utf-8")
        made = _held(load(new), _use(new))
        if cache is not None:
            _publish(new, cache / key, workshop / "old")
            _make_room(cache, workshop)
        return made
    finally:
        shutil.rmtree(workshop, ignore_errors=True)


def _own_folder(room: str) -> Path | None:
    """The cache's folder for one kind of thing; None, with a warning, where it cannot be written or others can."""
    try:
        folder = cache_folder() / room
        folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder.mkdir(mode=0o700, exist_ok=True)
        if is_open_to_others(folder):
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
        if file.name != CHECKSUMS and not file.name.startswith(USED):
            with file.open("rb") as stream:
                found[file.name] = hashlib.file_digest(stream, "sha256").hexdigest()
    return found


def _use(folder: Path) -> BinaryIO:
    """Mark a folder as used now, and as in use until the handle is closed; an OSError if it is not there."""
    for number in itertools.count():
        mark = (folder / f"{USED}-{number}").open("ab")
        if _lock(mark):
            break
        mark.close()
    (folder / USED).touch()
    return mark


def _lock(mark: BinaryIO) -> bool:
    """Lock a mark until it is closed; False where another handle has it."""
    try:
        from filelock import lock_descriptor  # where nothing is trained it may not be installed, and is not needed

        return lock_descriptor(mark.fileno(), blocking=False)
    except (OSError, ImportError):
        return True  # a file system without locks


def _held(made: Made, mark: BinaryIO) -> Made:
    """What was made, and with it the mark for as long as it lives."""
    try:
        weakref.finalize(made, mark.close)
    except TypeError:  # a plain value, which needs no folder
        mark.close()
    return made


def _make_room(cache: Path, workshop: Path) -> None:
    """Remove what was not used for longest, until the rest is within the limit; what is in use, or just was, stays."""
    entries = sorted(_entries(cache))
    total = sum(size for _, size, _ in entries)
    for last, size, folder in entries:
        if total <= LIMIT or time.time() - last < HOUR:
            return
        if _remove_unused(folder, last, workshop):
            total -= size


def _remove_unused(folder: Path, last: float, workshop: Path) -> bool:
    """Remove a folder that nobody uses, nor has used since this time; whether that was possible."""
    with contextlib.suppress(OSError), contextlib.ExitStack() as stack:
        marks = [stack.enter_context(mark.open("ab")) for mark in folder.glob(f"{USED}-*")]
        if all(map(_lock, marks)) and _last_use(folder) == last:
            folder.rename(workshop / folder.name)  # gone for others at once; the workshop is removed as a whole
            return True
    return False


def _entries(cache: Path) -> Iterator[tuple[float, int, Path]]:
    """When each folder was last used, its bytes, and where it is."""
    for folder in cache.iterdir():
        with contextlib.suppress(OSError):  # a process may just be removing it
            if not folder.name.startswith(".") and folder.is_dir():
                yield _last_use(folder), sum(file.stat().st_size for file in folder.iterdir()), folder


def _last_use(folder: Path) -> float:
    mark = folder / USED
    if not mark.exists():  # it was lost: the folder is as old as its content
        made = (folder / CHECKSUMS).stat().st_mtime_ns
        mark.touch()
        os.utime(mark, ns=(made, made))
    return mark.stat().st_mtime


def _publish(new: Path, folder: Path, old: Path) -> None:
    """Put a new folder in its place, where another process may just have put the same."""
    with contextlib.suppress(OSError):  # it is made in any case, only not kept
        if folder.exists() and not _is_whole(folder):
            folder.rename(old)
        new.rename(folder)
