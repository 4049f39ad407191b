"""Text files: which files are meant, and their characters a piece at a time."""

from __future__ import annotations

import codecs
import glob
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from unspool.errors import DataError

#: Bytes read at a time.
PIECE = 1 << 20

Source = str | Path | Sequence[str | Path]


def find_files(source: Source) -> list[Path]:
    """The files that a path, a folder, a pattern such as `books/*.txt`, or a list of these names; each once."""
    several = [source] if isinstance(source, str | Path) else list(source)
    found = dict.fromkeys(file for one in several for file in _find(str(one)))
    if not found:
        raise DataError(f"no file is named by {several}. Give a text file, a folder or a pattern.")
    return list(found)


def _find(name: str) -> list[Path]:
    path = Path(name).expanduser()
    if path.is_dir():
        files = sorted(file for file in path.rglob("*.txt") if file.is_file())
        if not files:
            raise DataError(f"the folder {name} has no *.txt file in it. Name the files, or give a pattern.")
        return files
    if path.exists():
        return [path]
    files = sorted(Path(file) for file in glob.glob(str(path), recursive=True) if Path(file).is_file())
    if not files:
        near = sorted(file.name for file in path.parent.glob("*") if file.is_file()) if path.parent.is_dir() else []
        there = f" {path.parent} has {', '.join(near[:5])}{'…' if len(near) > 5 else ''}." if near else ""
        raise DataError(f"there is no file {name}.{there} Check the path.")
    return files


def read_pieces(files: Iterable[Path], size: int = PIECE) -> Iterator[str]:
    """The text of the files, one after the other, in pieces; line ends are "\\n"."""
    for file in files:
        yield from _read(file, size)


def _read(file: Path, size: int) -> Iterator[str]:
    decoder = codecs.getincrementaldecoder("utf-8")()
    held, at = "", 0
    try:
        with file.open("rb") as stream:
            while raw := stream.read(size):
                if b"\0" in raw:
                    place = at + raw.index(b"\0")
                    raise DataError(f"{file} is not text: byte {place:,} is zero. Give UTF-8 text.")
                pending = len(decoder.getstate()[0])
                try:
                    text = held + decoder.decode(raw)
                except UnicodeDecodeError as error:
                    place = at - pending + error.start
                    raise DataError(
                        f"{file} is not UTF-8: byte {place:,} (0x{error.object[error.start]:02x}) cannot be read. "
                        "Convert it: iconv -f latin1 -t utf-8."
                    ) from error
                at += len(raw)
                held = "\r" if text.endswith("\r") else ""  # it may be half of "\r\n"
                yield text.removeprefix("\ufeff").removesuffix(held).replace("\r\n", "\n").replace("\r", "\n")
        decoder.decode(b"", final=True)
    except UnicodeDecodeError as error:
        raise DataError(f"{file} ends within a character. It was cut off; get the whole file.") from error
    except OSError as error:
        raise DataError(f"{file} cannot be read: {error.strerror}. Check its permissions.") from error
    if held:
        yield "\n"


def whole_lines(pieces: Iterable[str]) -> Iterator[list[str]]:
    """The same text as lists of lines, each with its end; a line may begin in one piece and end in another."""
    held: list[str] = []
    for piece in pieces:
        at = piece.rfind("\n") + 1
        if at:
            yield re.findall(r"[^\n]*\n|[^\n]+", "".join(held) + piece[:at])
            held = []
        if piece[at:]:
            held.append(piece[at:])
    if held:
        yield ["".join(held)]
