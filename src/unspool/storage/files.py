"""Files that are complete or not there: written under another name, made durable, and renamed."""

from __future__ import annotations

import errno
import os
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from unspool.errors import StorageError

WINDOWS = os.name == "nt"
#: The name of a file that is not yet in its place.
TEMPORARY = re.compile(r"\..+-[0-9a-f]{8}")
#: What to do where a file cannot be written, by the system's error.
REMEDIES = {
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT, errno.EFBIG), "Make room, then resume with `resume=True`"),
    **dict.fromkeys((errno.EACCES, errno.EPERM, errno.EROFS), "Allow writing there, or give another `out`"),
    **dict.fromkeys((errno.ENOTDIR, errno.EISDIR, errno.EEXIST, errno.ENOENT), "Give a folder as `out`"),
    **dict.fromkeys((errno.ENAMETOOLONG, errno.ELOOP, errno.EINVAL), "Give another `out`"),
}


@contextmanager
def storing(path: Path) -> Iterator[None]:
    """A context in which failures to write become a StorageError that names `path`."""
    try:
        yield
    except StorageError:
        raise
    except OSError as error:
        remedy = REMEDIES.get(error.errno or 0, "Check the disk, then resume with `resume=True`")
        raise StorageError(
            f"{path} cannot be written: {error.strerror or error}. What was there before is untouched. {remedy}."
        ) from error


def write_file(path: Path, content: bytes) -> None:
    """Write a file so that after a crash, at any moment, the old content is there or the new one."""
    with replacing(path) as stream:
        stream.write(content)


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """A stream whose content becomes that of a file when the context ends without an exception.

    After a crash, at any moment, the old content is there or the new one.

    Example:
        with replacing(Path("table.csv")) as stream:
            stream.writelines(rows)
    """
    name = path.with_name(f".{path.name}-{secrets.token_hex(4)}")
    with storing(path):
        try:
            with open(name, "xb") as stream:  # not a private temporary file: the umask decides who may read it
                yield stream
                stream.flush()
                os.fsync(stream.fileno())
            os.replace(name, path)
            sync(path.parent)
        finally:
            name.unlink(missing_ok=True)


def make_folder(path: Path) -> None:
    """Make a folder and its parents, if they are missing; a crash does not undo it."""
    with storing(path):
        if not path.is_dir():
            path.mkdir(parents=True, exist_ok=True)
            sync(path.parent)


def find_temporaries(folder: Path, name: str = "*") -> list[Path]:
    """What was left in a folder by writes, of one file or of any, that a power failure or SIGKILL cut off."""
    found = (path for path in folder.glob(f".{name}-*") if TEMPORARY.fullmatch(path.name))
    return [path for path in found if path.is_symlink() or not path.is_dir()]


def sync(path: Path) -> None:
    """Wait until a file, or the names in a folder, are on the disk."""
    if WINDOWS and path.is_dir():
        return  # a folder cannot be opened there
    handle = os.open(path, os.O_RDWR if WINDOWS else os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
