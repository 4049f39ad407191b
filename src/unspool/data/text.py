"""Text files: which files are meant, and their characters piece by piece."""

from __future__ import annotations

import codecs
import glob
import io
import os
import reprlib
from collections.abc import Iterable, Iterator, Sequence
from math import inf
from pathlib import Path

from unspool.data.encodings import PIECE, find_encoding
from unspool.data.names import is_about
from unspool.data.parquet_text import SUFFIX, read_parquet_text
from unspool.errors import DataError

#: Characters of a line above which it may be read in parts: some texts are a single line.
LONG = 1 << 16
#: Lines of a text that are looked at to see what it is.
LINES = 200

Source = str | Path | Sequence[str | Path]


def find_files(source: Source) -> list[Path]:
    """The files that are meant, each once.

    Args:
        source: A path, a folder, a pattern such as `books/*.txt`, or a list of these. A folder stands for its *.txt
            files and those of its subfolders, or, where there are none, for the files right in it. Hidden files,
            licenses, readmes and the like are left out.

    Returns:
        Paths of files that exist; those of a folder or a pattern are sorted.

    Raises:
        DataError: There is no such file.
    """
    several = [source] if isinstance(source, str | Path) else list(source)
    found: dict[tuple[int, int], Path] = {}
    for one in several:
        try:
            for file in _find(str(one)):
                found.setdefault(identity(file), file)
        except OSError as error:
            raise DataError(f"{one} cannot be read: {error.strerror}. Check the path and its permissions.") from error
    if not found:
        raise DataError(f"no file is named by {several}. Give a text file, a folder or a pattern.")
    return list(found.values())


def expand(name: str | Path) -> Path:
    """The path of a name that a user gave; refused where the system cannot even look whether it exists.

    Args:
        name: A path, which may start with `~`, or a pattern.

    Raises:
        DataError: The name is too long for a path, such as a text in place of one, or a folder may not be entered.

    Example:
        expand("~/books")
    """
    path = Path(os.path.expanduser(str(name)))
    try:
        path.exists()
    except OSError as error:
        shown = reprlib.repr(str(name))
        raise DataError(f"{shown} cannot be read: {error.strerror}. Check the path and its permissions.") from error
    return path


def identity(file: Path) -> tuple[int, int]:
    """The same for all names of one file, be they links."""
    status = file.stat()
    return status.st_dev, status.st_ino


def _find(name: str) -> list[Path]:
    if not name:
        raise DataError("a file's name is empty. Give a text file, a folder or a pattern.")
    path = expand(name)
    if path.is_file():
        return [path]
    if path.is_dir():
        files = _data_files(path.rglob("*.txt"), path) or _data_files(path.glob("*"), path)
        if not files:
            raise DataError(
                f"the folder {name} has no *.txt file and no other data in it. Name the files, or give a pattern."
            )
        return files
    if path.exists():
        raise DataError(f"{name} is a pipe or a device, and text is read more than once. Write it to a file first.")
    files = _visible(_match(path), path)
    if not files:
        raise DataError(f"there is no file {name}.{_neighbors(path.parent)} Check the path.")
    return files


def _neighbors(folder: Path) -> str:
    """Some files of a folder, for a message about one that is not there."""
    names = sorted(file.name for file in folder.glob("*") if file.is_file()) if folder.is_dir() else []
    place = "This folder" if folder == Path() else str(folder)
    return f" {place} has {', '.join(names[:5])}{', …' if len(names) > 5 else ''}." if names else ""


def _match(pattern: Path) -> Iterable[Path]:
    """What fits a pattern. Unlike the module glob, Path.glob follows no links below `**`; they may lead in circles."""
    if not glob.has_magic(str(pattern)):
        return []
    try:
        return list(Path(pattern.anchor).glob(str(pattern.relative_to(pattern.anchor))))
    except ValueError as error:
        raise DataError(f"{pattern} is not a pattern: {error}. Give one such as books/**/*.txt.") from error


def _visible(found: Iterable[Path], named: Path) -> list[Path]:
    """Files in order, without those in hidden folders that were not named: editors and systems keep copies there."""
    files = (file for file in found if file.is_file())
    return sorted(file for file in files if not any(part[0] == "." for part in {*file.parts} - {*named.parts}))


def _data_files(found: Iterable[Path], folder: Path) -> list[Path]:
    """The visible files of a folder, without those that are about the data."""
    return [file for file in _visible(found, folder) if not is_about(file)]


def read_pieces(files: Iterable[Path], size: int = PIECE) -> Iterator[str]:
    """The text of the files in pieces, one file after the other, with "\\n" at the end of lines; also of Parquet.

    Where a file ends without a line end, one is added, unless it is the last file.
    """
    last = "\n"
    for file in files:
        pieces = read_parquet_text(file) if file.suffix.lower() == SUFFIX else _read(file, size)
        for number, piece in enumerate(filter(None, pieces)):
            if not number and last != "\n":
                yield "\n"
            yield piece
            last = piece[-1]


def _read(file: Path, size: int) -> Iterator[str]:
    held = ""
    try:
        name, skip = find_encoding(file)
        decoder = codecs.getincrementaldecoder(name)("replace")
        with file.open("rb") as stream:
            stream.seek(skip)
            raw = None
            while raw != b"":
                raw = stream.read(size)
                text = held + decoder.decode(raw, final=not raw)
                held = "\r" if text.endswith("\r") else ""  # it may be half of "\r\n"
                if "\r" in text:
                    text = text.removesuffix(held).replace("\r\n", "\n").replace("\r", "\n")
                yield text
    except OSError as error:
        raise DataError(f"{file} cannot be read: {error.strerror}. Check its permissions.") from error
    if held:
        yield "\n"


def whole_lines(pieces: Iterable[str], longest: float = LONG) -> Iterator[str]:
    """The same text in pieces that end where lines do.

    Lines of more than `longest` characters are also cut before a space, so that a text without lines is not held whole.
    """
    held: list[str] = []
    for piece in pieces:
        at = piece.rfind("\n") + 1
        if not at and sum(map(len, held)) + len(piece) > longest:
            at = len(piece[: max(piece.rfind(" "), 0)].rstrip())  # all spaces go with the word after them
        if at:
            yield "".join(held) + piece[:at]
            held = []
        if at < len(piece):
            held.append(piece[at:])
    if held:
        yield "".join(held)


def read_lines(file: Path) -> Iterator[str]:
    """The lines of a file, with their ends."""
    return (line for piece in whole_lines(read_pieces([file]), longest=inf) for line in split_lines(piece))


def split_lines(text: str) -> list[str]:
    """Lines with their ends; only "\\n" ends one."""
    return list(io.StringIO(text, newline="\n"))
