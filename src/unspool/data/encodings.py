"""Encodings: which one a text file has, by its bytes. What is not UTF-8 is read as what it is, and that is said."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from unspool.data.foreign import LONGEST, describe_foreign
from unspool.data.problems import warn
from unspool.errors import DataError

#: Bytes read at a time.
PIECE = 1 << 20
#: Byte order marks and what follows them; the longer ones come first, as UTF-16's starts UTF-32's.
MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
#: UTF-8 with errors has at least so many right characters beyond ASCII for each wrong one.
RIGHT_PER_WRONG = 4
#: Fraction of bytes beyond ASCII that stand beside another one: nearly all in GB18030, few in Western languages.
TOGETHER = 0.8
#: Fraction of characters that can be shown, in what is text.
SHOWABLE = 0.95
#: Stands for what cannot be decoded.
REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
#: A byte beyond ASCII, alone or beside others.
_HIGH = re.compile(rb"[\x80-\xff]+")


class Encoding(NamedTuple):
    """How to decode a file: the codec, and the bytes of the byte order mark that come before the text."""

    name: str
    skip: int = 0


def find_encoding(file: Path) -> Encoding:
    """The encoding of a text file: UTF-8, UTF-16, UTF-32, GB18030, Windows-1252 or Latin-1.

    A warning says so, once, where it is not UTF-8.

    Args:
        file: The file. All of it is read, once while it does not change.

    Returns:
        The codec and where the text starts.

    Raises:
        DataError: The file is not text.

    Example:
        find_encoding(Path("book.txt"))  # Encoding("utf-8", 0)
    """
    status = file.stat()
    return _find(file, status.st_mtime_ns, status.st_size)


@lru_cache(maxsize=4096)
def _find(file: Path, _changed: int, _size: int) -> Encoding:
    with file.open("rb") as stream:
        start = stream.read(LONGEST)
    if kind := describe_foreign(file, start):
        raise DataError(f"{file} is {kind}")
    if (marked := _find_by_mark(file, start)) is not None:
        return marked
    name = "utf-8" if _decodes(file, "utf-8") else _guess(file)
    return Encoding(name, len(codecs.BOM_UTF8) if name == "utf-8" and start.startswith(codecs.BOM_UTF8) else 0)


def _find_by_mark(file: Path, start: bytes) -> Encoding | None:
    """The encoding whose mark a file begins with, and that it decodes by."""
    for mark, name in MARKS:
        if start.startswith(mark) and _decodes(file, name):
            if name != "utf-8":
                _say(file, name)
            return Encoding(name, len(mark))
    return None


def _say(file: Path, name: str) -> None:
    warn(f"{file} is not UTF-8: it is read as {name.upper()}.")


def _guess(file: Path) -> str:
    """The encoding of what is not wholly UTF-8."""
    zero = _find_zero(file)
    if zero is not None:
        name = _guess_utf16(file)
        if name is None:
            raise DataError(
                f"{file} is not text: byte {zero:,} is zero. Text is read in UTF-8, UTF-16, GB18030 and Windows-1252; "
                "convert it, or give another file."
            )
        _say(file, name)
        return name
    if _is_damaged_utf8(file):
        return "utf-8"
    name = "gb18030" if _is_chinese(file) else "cp1252" if _decodes(file, "cp1252") else "latin-1"
    _say(file, name)
    return name


def _pieces(file: Path) -> Iterator[bytes]:
    with file.open("rb") as stream:
        while raw := stream.read(PIECE):
            yield raw


def _decode(file: Path, name: str, errors: str) -> Iterator[str]:
    decoder = codecs.getincrementaldecoder(name)(errors)
    for raw in _pieces(file):
        yield decoder.decode(raw)
    yield decoder.decode(b"", final=True)


def _decodes(file: Path, name: str) -> bool:
    """Whether all bytes have a meaning, and no character is zero."""
    try:
        return all("\0" not in text for text in _decode(file, name, "strict"))
    except UnicodeDecodeError:
        return False


def _find_zero(file: Path) -> int | None:
    """The place of the first byte that is zero."""
    before = 0
    for raw in _pieces(file):
        if b"\0" in raw:
            return before + raw.index(b"\0")
        before += len(raw)
    return None


def _guess_utf16(file: Path) -> str | None:
    """UTF-16 without a mark: line ends, spaces and Latin letters have a zero, nearly always on the same side."""
    zeros, high = _count_bytes(file)
    name = "utf-16-le" if zeros[1] > zeros[0] else "utf-16-be"
    fits = 2 * min(zeros) <= max(zeros) and not _is_ascii_with_zeros(sum(zeros), high, file.stat().st_size)
    return name if fits and _decodes(file, name) and _is_shown(file, name) else None


def _count_bytes(file: Path) -> tuple[list[int], int]:
    """How many bytes are zero at even places and at odd ones, and how many are in runs of high ones."""
    zeros, high = [0, 0], 0
    for raw in _pieces(file):
        zeros = [zeros[side] + raw[side::2].count(0) for side in (0, 1)]
        high += sum(map(len, _HIGH.findall(raw)))
    return zeros, high


def _is_ascii_with_zeros(zeros: int, high: int, size: int) -> bool:
    """Whether so few bytes are zero or high that it is ASCII, which looks like Chinese if it is read in pairs."""
    return zeros < 0.4 * size and high < 0.05 * size


def _is_shown(file: Path, name: str) -> bool:
    """Whether nearly all of the first characters can be shown."""
    characters = next(_decode(file, name, "strict"))
    shown = sum(character.isprintable() or character.isspace() for character in characters)
    return shown >= SHOWABLE * len(characters)


def _is_damaged_utf8(file: Path) -> bool:
    """Whether it is UTF-8 with some errors, which is said, or one that was cut off within a character."""
    wrong, right, end = 0, 0, ""
    for text in _decode(file, "utf-8", "replace"):
        wrong += text.count(REPLACEMENT)
        right += _count_high(text) - text.count(REPLACEMENT)
        end = text or end
    place = _find_wrong(file)
    cut = wrong == 1 and end.endswith(REPLACEMENT) and (right > 0 or file.stat().st_size - place > 1)
    if not cut and right < RIGHT_PER_WRONG * wrong:
        return False
    what = "ends within a character" if cut else f"has {wrong:,} wrong characters, the first at byte {place:,}"
    warn(f"{file} is UTF-8 that {what}: such a character is read as {REPLACEMENT}.")
    return True


def _count_high(text: str) -> int:
    """Characters beyond ASCII."""
    return 0 if text.isascii() else sum(character > "\x7f" for character in text)


def _find_wrong(file: Path) -> int:
    """The place of the first byte that is no UTF-8."""
    place = 0
    for text in _decode(file, "utf-8", "replace"):
        before, wrong, _ = text.partition(REPLACEMENT)
        place += len(before.encode())
        if wrong:
            break
    return place


def _is_chinese(file: Path) -> bool:
    """Whether bytes beyond ASCII come in pairs that all have a meaning in GB18030."""
    if not _decodes(file, "gb18030"):
        return False
    runs = [len(run) for raw in _pieces(file) for run in _HIGH.findall(raw)]
    return sum(length for length in runs if length > 1) >= TOGETHER * sum(runs)
