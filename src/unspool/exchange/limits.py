"""What files of other libraries may be: regular, of a bounded size, and no larger inside than they say outside."""

from __future__ import annotations

import stat
import zipfile
from pathlib import Path

from unspool.errors import DataError

#: The largest file, and the largest text inside one, in bytes.
LARGEST, LONGEST_TEXT = 1 << 33, 1 << 24
#: What entries of an archive may take up beyond the archive itself, whose entries are stored as they are.
SLACK = 1 << 20


def check_file(path: Path, kind: str) -> int:
    """The size of a regular file of at most `LARGEST` bytes.

    Raises:
        DataError: It is not there, not a file, empty or too large.
    """
    try:
        found = path.stat()
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}. Give a {kind} file.") from error
    if not stat.S_ISREG(found.st_mode):
        raise DataError(f"{path} cannot be read: it is not a file. Give a {kind} file.")
    if not 0 < found.st_size <= LARGEST:
        raise DataError(f"{path} cannot be read: it has {found.st_size:,} bytes. Give a {kind} file.")
    return found.st_size


def is_archive(path: Path) -> bool:
    """Whether a file is a zip archive that can be read."""
    try:
        return zipfile.is_zipfile(path)
    except (zipfile.BadZipFile, OSError):  # an end that says nonsense
        return False


def check_numbers(numbers: int, path: Path, size: int) -> None:
    """Refuse a file that names its tensors again and again: layers have copies of their own.

    A number takes two bytes at least, so that this leaves room for weights that several layers share.

    Raises:
        DataError: They are more numbers than the file has bytes.
    """
    if numbers > size + SLACK:
        raise DataError(f"{path} cannot be read: its {size:,} bytes are named as {numbers:,} numbers. It is damaged.")


def check_archive(archive: zipfile.ZipFile, path: Path, size: int) -> None:
    """Refuse a zip archive whose entries say that they are larger than the archive: neither library compresses them.

    Raises:
        DataError: They are.
    """
    inside = sum(entry.file_size for entry in archive.infolist())
    if inside > size + SLACK:
        raise DataError(f"{path} cannot be read: its {size:,} bytes say that they hold {inside:,}. It is damaged.")
