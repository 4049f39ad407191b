"""Pretrained word vectors: the text formats of word2vec and GloVe, read line by line; only wanted rows are kept."""

from __future__ import annotations

import gzip
import io
import os
import zlib
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain, islice
from pathlib import Path
from typing import IO

import numpy as np
from numpy.typing import NDArray

from unspool.errors import DataError

Row = NDArray[np.float32]

#: Lines by which the number of dimensions is found.
SAMPLE = 100
#: Bytes of the longest line: a vector of tens of thousands of numbers.
LONGEST = 1 << 20
BLANKS = b" \t\r\n"
BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True)
class Coverage:
    """How much of a vocabulary has a vector, as fractions from 0 to 1."""

    types: float  # of its entries
    tokens: float | None  # of the text that they were counted in; None if there are no counts


@dataclass(frozen=True, eq=False)
class Vectors:
    """Vectors by token: row i of `matrix` is the vector of `tokens[i]`."""

    tokens: tuple[str, ...]
    matrix: Row
    notes: tuple[str, ...] = ()  # what was unusual about the file, for people

    @property
    def dim(self) -> int:
        """The width of a vector."""
        return int(self.matrix.shape[1])

    def coverage(self, vocabulary: Collection[str] | Mapping[str, int]) -> Coverage:
        """How much of a vocabulary has a vector.

        Args:
            vocabulary: The tokens, or their counts by token.

        Returns:
            The fraction of the entries and, if there are counts, the fraction of the counted text.

        Example:
            >>> Vectors(("the",), np.zeros((1, 50), np.float32)).coverage({"the": 9, "zyx": 1})
            Coverage(types=0.5, tokens=0.9)
        """
        known = set(self.tokens)
        types = sum(token in known for token in vocabulary) / max(len(vocabulary), 1)
        if not isinstance(vocabulary, Mapping):
            return Coverage(types, None)
        counted = sum(count for token, count in vocabulary.items() if token in known)
        return Coverage(types, counted / max(sum(vocabulary.values()), 1))


def read_vectors(path: str | Path, wanted: Collection[str], lowercase: bool = False) -> Vectors:
    """Read the vectors of some tokens from a text file.

    The file is word2vec's text format, which begins with a line `count dimensions`, or GloVe's, which does not; it may
    be compressed by gzip. Tokens may contain blanks, as some of GloVe's do. Of a token that occurs twice the first
    vector is kept. Bytes that are not UTF-8 are replaced, and a damaged last line is left out; `notes` counts these.

    Args:
        path: The file.
        wanted: The tokens whose vectors are kept; nothing else of the file is held in memory.
        lowercase: Whether a token without a vector takes the one of its lower-case form.

    Returns:
        The vectors that were found, in the order of `wanted`.

    Raises:
        DataError: The file cannot be read as vectors; the message gives the line.

    Example:
        >>> vectors = read_vectors("glove.6B.50d.txt", ["the", "cat"])  # doctest: +SKIP
        >>> vectors.matrix.shape  # doctest: +SKIP
        (2, 50)
    """
    file = Path(os.path.expanduser(path))
    # each token, and the tokens of the file whose vector it takes: itself, or else its lower-case form
    forms = {token: (token, token.lower()) if lowercase else (token,) for token in wanted}
    with _opened(file) as stream:
        lines = _lines(file, stream)
        first = list(islice(lines, SAMPLE))
        dim, announced = _layout(file, first)
        scan = _Scan(file, dim, set(chain.from_iterable(forms.values())))
        scan.read(chain(first if announced is None else first[1:], lines))
    taken = {token: next((form for form in each if form in scan.found), None) for token, each in forms.items()}
    return _assemble(scan, taken, announced)


def _assemble(scan: _Scan, taken: Mapping[str, str | None], announced: int | None) -> Vectors:
    """The vectors of tokens, each by the form of it that the file has; None where it has none."""
    rows = {token: scan.found[form] for token, form in taken.items() if form is not None}
    matrix = np.stack(list(rows.values())) if rows else np.zeros((0, scan.dim), np.float32)
    lowered = sum(form not in (None, token) for token, form in taken.items())
    return Vectors(tuple(rows), matrix, tuple(scan.notes(announced, lowered)))


def read_width(path: str | Path) -> int:
    """How many numbers a vector of a file has; only its first lines are read.

    Raises:
        DataError: The file cannot be read as vectors.

    Example:
        >>> read_width("glove.6B.50d.txt")  # doctest: +SKIP
        50
    """
    file = Path(os.path.expanduser(path))
    with _opened(file) as stream:
        return _layout(file, list(islice(_lines(file, stream), SAMPLE)))[0]


@contextmanager
def _opened(file: Path) -> Iterator[IO[bytes]]:
    """The file's bytes, decompressed where they are by gzip."""
    try:
        with file.open("rb") as raw:
            magic = raw.read(4)
            raw.seek(0)
            if magic == b"PK\3\4":
                raise DataError(f"{file} is a ZIP archive. Unpack it, and give the text file in it.")
            if magic[:2] == b"\x1f\x8b":
                with gzip.GzipFile(fileobj=raw) as packed:
                    yield io.BufferedReader(packed)
            else:
                yield raw
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DataError(f"{file} is a damaged gzip file: {error}. Get the whole file.") from error
    except OSError as error:
        raise DataError(
            f"{file} cannot be read: {error.strerror or error}. Check the path and its permissions."
        ) from error


def _lines(file: Path, stream: IO[bytes]) -> Iterator[tuple[int, bytes]]:
    """Every line that is not blank with its number, without the blanks at its end."""
    number = 0
    while line := stream.readline(LONGEST + 1):
        number += 1
        if len(line) > LONGEST:
            raise DataError(f"{file}, line {number}: the line is longer than {LONGEST:,} bytes. {_convert(file)}")
        if number == 1:
            line = line.removeprefix(BOM)
        if line := line.rstrip(BLANKS):
            yield number, line


def _layout(file: Path, first: list[tuple[int, bytes]]) -> tuple[int, int | None]:
    """How many dimensions the vectors have, and how many of them a header announces; None without a header."""
    if not first:
        raise DataError(f"{file} is empty. Give a file of word vectors.")
    if any(b"\0" in line for _, line in first):
        raise DataError(f"{file} is not text: it has zero bytes. {_convert(file)}")
    announced = _header(first[0][1])
    body = first if announced is None else first[1:]
    if not body:
        raise DataError(f"{file} has one line, {first[0][1][:40]!r}, and no vectors. Get the whole file.")
    dim = _usual_width(body, whole=len(first) < SAMPLE)
    if dim < 1:
        raise DataError(f"{file}, line {body[0][0]}: a token without numbers. Give a file of word vectors.")
    if announced is None:
        return dim, None
    return dim, _check_header(file, announced, dim)


def _check_header(file: Path, announced: tuple[int, int], dim: int) -> int | None:
    """How many vectors a header announces; None if it is no header after all."""
    count, width = announced
    if width == dim:
        return count
    if dim == 1:  # a token that is a number, with a vector of one number, looks like a header
        return None
    raise DataError(
        f"{file}, line 1: the header announces vectors of {width:,} numbers, and the lines after it have {dim:,}. "
        f"{_convert(file)}"
    )


def _header(line: bytes) -> tuple[int, int] | None:
    """The two whole numbers that word2vec's format begins with: how many vectors, and how wide."""
    fields = line.split()
    if len(fields) != 2 or not all(part.isdigit() and len(part) < 20 for part in fields):
        return None
    return int(fields[0]), int(fields[1])


def _usual_width(lines: list[tuple[int, bytes]], whole: bool) -> int:
    """The most frequent count of numbers. A token with blanks adds to it, so of equals the smallest is right."""
    if whole and len(lines) > 1:
        lines = lines[:-1]  # the file's last line may be cut off
    widths = Counter(len(line.split()) - 1 for _, line in lines)
    return min(widths, key=lambda width: (-widths[width], width))


def _convert(file: Path) -> str:
    return f"If {file.name} is in word2vec's binary format, write it as text first."


class _FlawedLineError(Exception):
    """A line that is not a token and its numbers."""


@dataclass
class _Scan:
    """One way through a file: the wanted rows, and counts of what was unusual."""

    file: Path
    dim: int
    wanted: set[str]
    found: dict[str, Row] = field(default_factory=dict)
    lines: int = 0
    not_utf8: int = 0
    without_token: int = 0
    repeated: int = 0
    cut_off: int = 0

    def read(self, lines: Iterable[tuple[int, bytes]]) -> None:
        """Take the lines in. A flawed one is an error once another follows: the last may have been cut off."""
        flaw: tuple[int, _FlawedLineError] | None = None
        for number, line in lines:
            if flaw is not None:
                break
            try:
                self._take(line)
                self.lines += 1
            except _FlawedLineError as error:
                flaw = number, error
        else:
            self.cut_off = int(flaw is not None)
            return
        raise DataError(f"{self.file}, line {flaw[0]}: {flaw[1]}. Correct the line, or remove it.")

    def notes(self, announced: int | None, lowered: int) -> list[str]:
        """What was unusual, in words; `lowered` tokens took the vector of their lower-case form."""
        counts = {
            "token(s) with bytes that are not UTF-8, which were replaced": self.not_utf8,
            "line(s) without a token, which were left out": self.without_token,
            "repeated token(s), of which the first vector is kept": self.repeated,
            "damaged last line, which was left out": self.cut_off,
            "token(s) with the vector of their lower-case form": lowered,
        }
        notes = [f"{count:,} {what}" for what, count in counts.items() if count]
        if announced is not None and announced != self.lines:
            notes.append(f"the header announces {announced:,} vectors, and the file has {self.lines:,}")
        return notes

    def _take(self, line: bytes) -> None:
        head, numbers = self._split(line)
        if not head:
            self.without_token += 1
            return
        try:
            token = head.decode()
        except UnicodeDecodeError:
            token = head.decode(errors="replace")
            self.not_utf8 += 1
        if token not in self.wanted:
            return
        if token in self.found:
            self.repeated += 1
        else:
            self.found[token] = self._parse(token, numbers.split())

    def _split(self, line: bytes) -> tuple[bytes, bytes]:
        """The token, and its numbers as one text. Most lines have single blanks and need no closer look."""
        if line.count(b" ") == self.dim and line[:1] != b" ":
            head, _, numbers = line.partition(b" ")
            return head, numbers
        fields = line.rsplit(None, self.dim)
        if len(fields) == self.dim and line[:1] in (b" ", b"\t"):
            return b"", line
        if len(fields) <= self.dim:
            raise _FlawedLineError(f"{len(line.split()) - 1:,} numbers where other lines have {self.dim:,}")
        head = fields[0].strip(BLANKS)
        if _is_number(head.split()[-1]) and len(head.split()) > 1:
            raise _FlawedLineError(f"more numbers than the {self.dim:,} of other lines")
        return head, b" ".join(fields[1:])

    def _parse(self, token: str, fields: list[bytes]) -> Row:
        if len(fields) != self.dim:
            raise _FlawedLineError(f"{len(fields):,} numbers where other lines have {self.dim:,}")
        try:
            with np.errstate(over="ignore"):
                row = np.array([float(number) for number in fields], np.float64).astype(np.float32)
        except ValueError as error:
            raise _FlawedLineError(f"the vector of {token!r} has an entry that is not a number ({error})") from error
        if not np.isfinite(row).all():
            raise _FlawedLineError(f"the vector of {token!r} has an entry that is not finite")
        return row


def _is_number(text: bytes) -> bool:
    """Whether a field is a vector's number, which a token's last word seldom is."""
    try:
        float(text)
    except ValueError:
        return False
    return any(digit in text for digit in b"0123456789")
