"""Text files: which files are meant, and their characters piece by piece."""

from __future__ import annotations

import codecs
import glob
import io
import os
import shlex
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from unspool.errors import DataError

#: Bytes read at a time.
PIECE = 1 << 20
#: Characters of a line above which it may be read in parts: some texts are a single line.
LONG = 1 << 16

Source = str | Path | Sequence[str | Path]


def find_files(source: Source) -> list[Path]:
    """The files that are meant, each once.

    Args:
        source: A path, a folder (its *.txt files), a pattern such as `books/*.txt`, or a list of these.

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


def identity(file: Path) -> tuple[int, int]:
    """The same for all names of one file, be they links."""
    status = file.stat()
    return status.st_dev, status.st_ino


def _find(name: str) -> list[Path]:
    if not name:
        raise DataError("a file's name is empty. Give a text file, a folder or a pattern.")
    path = Path(os.path.expanduser(name))
    if path.is_file():
        return [path]
    if path.is_dir():
        files = _visible(path.rglob("*.txt"), path)
        if not files:
            raise DataError(f"the folder {name} has no *.txt file in it. Name the files, or give a pattern.")
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


def read_pieces(files: Iterable[Path], size: int = PIECE) -> Iterator[str]:
    """The text of the files in pieces, one file after the other, with "\\n" at the end of lines.

    Where a file ends without a line end, one is added, unless it is the last file.
    """
    last = "\n"
    for file in files:
        for number, piece in enumerate(filter(None, _read(file, size))):
            if not number and last != "\n":
                yield "\n"
            yield piece
            last = piece[-1]


def _read(file: Path, size: int) -> Iterator[str]:
    decoder = codecs.getincrementaldecoder("utf-8")()
    held = ""
    try:
        with file.open("rb") as stream:
            at = 3 if stream.read(3) == codecs.BOM_UTF8 else 0
            stream.seek(at)
            while raw := stream.read(size):
                if b"\0" in raw:
                    place = at + raw.index(b"\0")
                    raise DataError(f"{file} is not UTF-8: byte {place:,} is zero. {conversion(file, raw)}")
                pending = len(decoder.getstate()[0])
                try:
                    text = held + decoder.decode(raw)
                except UnicodeDecodeError as error:
                    place = at - pending + error.start
                    raise DataError(
                        f"{file} is not UTF-8: byte {place:,} (0x{error.object[error.start]:02x}) cannot be read. "
                        + conversion(file, raw)
                    ) from error
                at += len(raw)
                held = "\r" if text.endswith("\r") else ""  # it may be half of "\r\n"
                if "\r" in text:
                    text = text.removesuffix(held).replace("\r\n", "\n").replace("\r", "\n")
                yield text
        decoder.decode(b"", final=True)
    except UnicodeDecodeError as error:
        raise DataError(f"{file} ends within a character. It was cut off; get the whole file.") from error
    except OSError as error:
        raise DataError(f"{file} cannot be read: {error.strerror}. Check its permissions.") from error
    if held:
        yield "\n"


def conversion(file: Path, raw: bytes) -> str:
    """How to convert a file with these bytes to UTF-8: zeros are in UTF-16, or in what is no text at all."""
    command = f"iconv -f {{}} -t utf-8 {shlex.quote(str(file))} > NEW"
    if b"\0" in raw or raw.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return f"If it is text in UTF-16, convert it: {command.format('utf-16')}"
    return f"Convert it: {command.format('latin1')}"


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


def split_lines(text: str) -> list[str]:
    """Lines with their ends; only "\\n" ends one."""
    return list(io.StringIO(text, newline="\n"))
