"""A corpus: text files divided into training, validation and test, as tokens in mapped files that are made once."""

from __future__ import annotations

import hashlib
import json
import math
import random
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate
from pathlib import Path
from typing import IO, Any

from unspool.data import names
from unspool.data.cache import made_once
from unspool.data.text import LONG, Source, find_files, identity, read_pieces, split_lines, whole_lines
from unspool.data.tokens import Ids, map_tokens, write_tokens
from unspool.data.vocabulary import Vocabulary, find_tokenizer, load_vocabulary
from unspool.errors import ArgumentError, DataError, UnknownNameError

PARTS = tuple(names.PARTS)
SPLITS = ("tail", "lines")
#: Changes when what is in the folder of a corpus changes its meaning.
FORMAT = 2
#: Bytes of lines that are shuffled in memory at a time, and how many files they are dealt into at most.
BUCKET = 16 << 20
BUCKETS = 200


@dataclass(frozen=True)
class Division:
    """How a text is split into training, validation and test.

    `validation` and `test` are fractions of the text, or files of their own, which are then not trained on even where
    the folder or pattern of the text includes them. With "tail" the fractions are the end of the text, validation
    before test, so that they continue the training part; a cut falls between two characters (or bytes), otherwise at
    the end of a line. With "lines" each line goes by its content and the seed to one part, equal lines to the same
    part, and the lines of each part are shuffled: for lists of names, poems or sentences. Empty lines are dropped.
    """

    split: str = "tail"
    validation: float | tuple[str, ...] = 0.1
    test: float | tuple[str, ...] = 0.0
    seed: int = 0

    def __post_init__(self) -> None:
        if self.split not in SPLITS:
            raise UnknownNameError.among("split", self.split, SPLITS)
        for name, given in (("validation", self.validation), ("test", self.test)):
            if isinstance(given, int | float) and not 0 <= given < 1:
                raise ArgumentError.of(name, given, "is not a fraction of the text", "Give a number from 0 to below 1")
        if sum(self.fractions) >= 1:
            raise ArgumentError(
                "`validation` and `test` leave nothing to train on. Give fractions whose sum is below 1."
            )

    @property
    def fractions(self) -> tuple[Fraction, Fraction]:
        """The fractions of the text that are for validation and for test; 0 where these are files."""
        return _exact(self.validation), _exact(self.test)


@dataclass(frozen=True)
class Corpus:
    """Tokens for training, validation and test, and the vocabulary, which is fitted on the training part alone."""

    vocabulary: Vocabulary
    training: Ids
    validation: Ids
    test: Ids
    digest: str  # of all the text


def prepare(
    source: Source,
    division: Division,
    tokenizer: str = "char",
    limit: int | None = None,
    vocabulary: Vocabulary | None = None,
) -> Corpus:
    """Read text files, split them and encode them.

    The result is taken from the cache where the same was prepared before. Memory does not grow with the text, except
    for what a vocabulary counts: "word" and "bpe" count every different word before `limit` chooses among them.

    Args:
        source: Files, folders and patterns.
        division: How the text is split.
        tokenizer: The name of a tokenizer.
        limit: The largest vocabulary; None: all tokens.
        vocabulary: A vocabulary that is used instead of a fitted one.

    Returns:
        Mapped token files and the vocabulary.

    Example:
        corpus = prepare("book.txt", Division(validation=0.1), "char")
    """
    kind = find_tokenizer(tokenizer) if vocabulary is None else type(vocabulary)
    files = _divide(source, division)
    state = _state(files)
    counts, digest = _measure(files)
    if counts[0] < 2:
        raise DataError(f"{_names(files[0])} has {counts[0]} character(s). Give text to learn from.")
    text = _Text(files, counts, division, exact=kind.kind in ("char", "byte"))
    document = None if vocabulary is None else vocabulary.dump()
    fractions = list(map(str, division.fractions))
    key = json.dumps([FORMAT, digest, kind.kind, limit, division.split, fractions, division.seed, document])

    def make(folder: Path) -> None:
        with tempfile.TemporaryDirectory(dir=folder) as lines:
            parts = text.parts(Path(lines))
            fitted = kind.fit(parts[0], limit) if vocabulary is None else vocabulary
            for name, part in zip(PARTS, parts, strict=True):
                write_tokens(folder / name, fitted.encode(part), len(fitted))
        (folder / "vocabulary.json").write_text(json.dumps(fitted.dump()), encoding="utf-8")
        if _state(files) != state:
            raise DataError(f"{_names(files[0])} was changed while it was read. Try again when it is complete.")

    def load(folder: Path) -> Corpus:
        vocabulary = load_vocabulary(json.loads((folder / "vocabulary.json").read_text(encoding="utf-8")))
        training, validation, test = (map_tokens(folder / part, len(vocabulary)) for part in PARTS)
        return Corpus(vocabulary, training, validation, test, digest)

    return made_once("tokens", hashlib.sha256(key.encode()).hexdigest()[:32], make, load)


@dataclass(frozen=True)
class _Text:
    files: Sequence[Sequence[Path]]  # of each part; those of training also hold the fractions
    counts: Sequence[int]
    division: Division
    exact: bool  # cuts fall between any two characters, not only between lines

    def parts(self, folder: Path) -> list[Iterable[str]]:
        """The text of each part, to be read any number of times; `folder` holds shuffled lines."""
        parts: list[Iterable[str]] = list(self._shuffled(folder) if self.division.split == "lines" else self._cut())
        for number, given in enumerate((self.division.validation, self.division.test), 1):
            if not isinstance(given, int | float):
                parts[number] = _Pieces(self.files[number])
        return parts

    def _cut(self) -> Iterator[_Pieces]:
        validation, test = self.division.fractions
        ends = [math.floor(end * self.counts[0]) for end in (1 - validation - test, 1 - test, Fraction(1))]
        for span in zip([0, *ends], ends, strict=False):
            yield _Pieces(self.files[0], span, self.exact)

    def _shuffled(self, folder: Path) -> Iterator[_Pieces]:
        """Lines in a random order, each in the part that its content and the seed decide, one bucket at a time."""
        paths = [folder / part for part in PARTS]
        with ExitStack() as stack:
            outputs = [stack.enter_context(path.open("wb")) for path in paths]
            names = [folder / str(number) for number in range(min(BUCKETS, 1 + 4 * self.counts[0] // BUCKET))]
            buckets = [stack.enter_context(name.open("w+b")) for name in names]
            for order, part, line in self._draw_lines():
                # the drawn number in hexadecimal digits, so that sorting the lines of a bucket sorts by it
                buckets[order * len(buckets) >> 64].write(b"%016x%d%b\n" % (order, part, line))
            for bucket in buckets:
                _deal(bucket, outputs)
        for name in names:
            name.unlink()
        for path in paths:
            yield _Pieces([path])

    def _draw_lines(self) -> Iterator[tuple[int, int, bytes]]:
        """Every line with a random 64-bit number, by which lines are sorted, and the number of its part."""
        key = hashlib.sha256(str(self.division.seed).encode()).digest()
        generator = random.Random(self.division.seed)
        validation, test = map(float, self.division.fractions)
        for text in whole_lines(read_pieces(self.files[0]), math.inf):
            for line in filter(None, text.split("\n")):
                raw = line.encode()
                digest = hashlib.blake2b(raw, digest_size=8, key=key).digest()
                place = int.from_bytes(digest, "little") / 2**64
                yield generator.getrandbits(64), _choose_part(place, validation, test), raw


@dataclass(frozen=True)
class _Pieces:
    """Characters `span` of some files; where cuts are not exact, a part starts after the line that a cut falls into."""

    files: Sequence[Path]
    span: tuple[int, int] | None = None
    exact: bool = True

    def __iter__(self) -> Iterator[str]:
        if self.span is None:
            yield from read_pieces(self.files)
            return
        at, (first, last) = 0, self.span
        if first == last:
            return
        pieces = read_pieces(self.files) if self.exact else whole_lines(read_pieces(self.files, LONG))
        for piece in pieces:
            part = self._within(piece, at, first, last)
            if part:
                yield part
            at += len(piece)
            if at >= last:
                return

    def _within(self, piece: str, at: int, first: int, last: int) -> str:
        """What of a piece, whose first character is number `at`, belongs to characters `first` to `last`."""
        if self.exact:
            return piece[max(0, first - at) : last - at]
        if first <= at and at + len(piece) <= last:
            return piece
        lines = split_lines(piece)
        starts = accumulate(map(len, lines), initial=at)
        return "".join(line for line, start in zip(lines, starts, strict=False) if first <= start < last)


def _choose_part(place: float, validation: float, test: float) -> int:
    """The number of the part of a line whose content puts it at a place from 0 to 1."""
    if place < validation:
        return PARTS.index("validation")
    if place < validation + test:
        return PARTS.index("test")
    return PARTS.index("training")


def _exact(given: float | tuple[str, ...]) -> Fraction:
    """0.1 as a tenth, not as the binary number next to it: cuts fall where one would make them by hand."""
    return Fraction(str(float(given))) if isinstance(given, int | float) else Fraction(0)


def _deal(bucket: IO[bytes], outputs: Sequence[IO[bytes]]) -> None:
    """Write the lines of a bucket, sorted, each to the part that it names."""
    bucket.seek(0)
    for entry in sorted(bucket):
        outputs[int(entry[16:17])].write(entry[17:])


def _divide(source: Source, division: Division) -> list[list[Path]]:
    """The files of each part; none is in two of them."""
    own = [[] if isinstance(one, int | float) else find_files(one) for one in (division.validation, division.test)]
    held_out = _held_out(*own)
    training = [file for file in find_files(source) if identity(file) not in held_out]
    if not training:
        raise DataError("all of the text's files are in `validation` or `test`. Give others to train on.")
    return [training, *own]


def _held_out(validation: Iterable[Path], test: Iterable[Path]) -> set[Any]:
    """The identities of files that are not trained on."""
    both = [{identity(file) for file in part} for part in (validation, test)]
    if both[0] & both[1]:
        raise DataError("`validation` and `test` name the same file. Give each its own.")
    return both[0] | both[1]


def _state(files: Sequence[Sequence[Path]]) -> list[tuple[int, int]]:
    """What changes when a file is written to."""
    return [(file.stat().st_size, file.stat().st_mtime_ns) for part in files for file in part]


def _measure(files: Sequence[Sequence[Path]]) -> tuple[list[int], str]:
    """How many characters each part's files have, and a digest of all of them."""
    digest, counts = hashlib.sha256(), []
    for part in files:
        count = 0
        for piece in read_pieces(part):
            count += len(piece)
            digest.update(piece.encode())
        digest.update(count.to_bytes(8, "little"))
        counts.append(count)
    return counts, digest.hexdigest()


def _names(files: Sequence[Path]) -> str:
    return str(files[0]) if len(files) == 1 else f"what is in {len(files)} files"
