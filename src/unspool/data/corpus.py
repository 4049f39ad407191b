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

from unspool.data.cache import made_once
from unspool.data.text import LONG, Source, find_files, identity, read_pieces, split_lines, whole_lines
from unspool.data.tokens import Ids, map_tokens, write_tokens
from unspool.data.vocabulary import Vocabulary, find_kind, load_vocabulary
from unspool.errors import ArgumentError, DataError, UnknownNameError

PARTS = ("training", "validation", "test")
SPLITS = ("tail", "lines")
#: Changes when what is in the folder of a corpus changes its meaning.
FORMAT = 2
#: Bytes of lines that are shuffled in memory at a time, and how many files they are dealt into at most.
BUCKET = 16 << 20
BUCKETS = 200


@dataclass(frozen=True)
class Division:
    """Which part of a text is for what.

    `validation` and `test` are shares of the text, or files of their own, which are then not trained on even where the
    text's folder or pattern includes them. Shares are cut off the text's end ("tail"), validation before test, so that
    they continue what was trained on: between two characters (or bytes), otherwise where a line ends. Or, with "lines",
    each line goes by its content and the seed to one part, equal lines to the same part, and each part's lines are
    shuffled: for lists of names, poems or sentences. Empty lines are dropped then.
    """

    split: str = "tail"
    validation: float | tuple[str, ...] = 0.1
    test: float | tuple[str, ...] = 0.0
    seed: int = 0

    def __post_init__(self) -> None:
        if self.split not in SPLITS:
            raise UnknownNameError.among("split", self.split, SPLITS)
        for name, share in (("validation", self.validation), ("test", self.test)):
            if isinstance(share, int | float) and not 0 <= share < 1:
                raise ArgumentError.of(name, share, "is not a share of the text", "Give a number from 0 to below 1")
        if sum(self.shares) >= 1:
            raise ArgumentError("`validation` and `test` leave nothing to train on. Give shares that sum to below 1.")

    @property
    def shares(self) -> tuple[Fraction, Fraction]:
        """Of the first text: what goes to validation, and to test."""
        return _share(self.validation), _share(self.test)


@dataclass(frozen=True)
class Corpus:
    """Tokens for training, validation and test, and the vocabulary, which has seen the training part alone."""

    vocabulary: Vocabulary
    training: Ids
    validation: Ids
    test: Ids
    digest: str  # of all the text


def prepare(
    source: Source,
    division: Division,
    tokens: str = "characters",
    limit: int | None = None,
    vocabulary: Vocabulary | None = None,
) -> Corpus:
    """The corpus of text files, in the tokens of a name, or of a vocabulary that is there already.

    It is taken from the cache where the same was prepared before. Memory stays the same however long the text, but for
    what a vocabulary counts: "words" and "bpe" count every different word before `limit` chooses among them.
    """
    kind = find_kind(tokens) if vocabulary is None else type(vocabulary)
    files = _divide(source, division)
    state = _state(files)
    counts, digest = _measure(files)
    if counts[0] < 2:
        raise DataError(f"{_names(files[0])} has {counts[0]} character(s). Give text to learn from.")
    text = _Text(files, counts, division, exact=kind.kind in ("characters", "bytes"))
    document = None if vocabulary is None else vocabulary.dump()
    said = [FORMAT, digest, kind.kind, limit, division.split, list(map(str, division.shares)), division.seed, document]

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

    return made_once("tokens", hashlib.sha256(json.dumps(said).encode()).hexdigest()[:32], make, load)


@dataclass(frozen=True)
class _Text:
    files: Sequence[Sequence[Path]]  # of each part; training's also hold the shares
    counts: Sequence[int]
    division: Division
    exact: bool  # cuts fall between any two characters, not only between lines

    def parts(self, folder: Path) -> list[Iterable[str]]:
        """The text of each part, to be read as often as one likes; `folder` holds shuffled lines."""
        parts: list[Iterable[str]] = list(self._shuffled(folder) if self.division.split == "lines" else self._cut())
        for number, share in enumerate((self.division.validation, self.division.test), 1):
            if not isinstance(share, int | float):
                parts[number] = _Pieces(self.files[number])
        return parts

    def _cut(self) -> Iterator[_Pieces]:
        validation, test = self.division.shares
        ends = [math.floor(share * self.counts[0]) for share in (1 - validation - test, 1 - test, Fraction(1))]
        for span in zip([0, *ends], ends, strict=False):
            yield _Pieces(self.files[0], span, self.exact)

    def _shuffled(self, folder: Path) -> Iterator[_Pieces]:
        """Lines go to the part that they and the seed say, and are sorted by numbers drawn, one bucket at a time."""
        key = hashlib.sha256(str(self.division.seed).encode()).digest()
        chance = random.Random(self.division.seed)
        validation, test = map(float, self.division.shares)
        paths = [folder / part for part in PARTS]
        with ExitStack() as stack:
            outputs = [stack.enter_context(path.open("wb")) for path in paths]
            names = [folder / str(number) for number in range(min(BUCKETS, 1 + 4 * self.counts[0] // BUCKET))]
            buckets = [stack.enter_context(name.open("w+b")) for name in names]
            for text in whole_lines(read_pieces(self.files[0]), math.inf):
                for line in filter(None, text.split("\n")):
                    raw, order = line.encode(), chance.getrandbits(64)
                    mark = int.from_bytes(hashlib.blake2b(raw, digest_size=8, key=key).digest(), "little") / 2**64
                    part = 1 if mark < validation else 2 if mark < validation + test else 0
                    buckets[order * len(buckets) >> 64].write(b"%016x%d%b\n" % (order, part, raw))
            for bucket in buckets:
                bucket.seek(0)
                for entry in sorted(bucket):
                    outputs[int(entry[16:17])].write(entry[17:])
        for name in names:
            name.unlink()
        for path in paths:
            yield _Pieces([path])


@dataclass(frozen=True)
class _Pieces:
    """Characters `span` of some files; where cuts are not exact, a part begins after the line that a cut falls into."""

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
        for piece in read_pieces(self.files) if self.exact else whole_lines(read_pieces(self.files, LONG)):
            if self.exact:
                part = piece[max(0, first - at) : last - at]
            elif first <= at and at + len(piece) <= last:
                part = piece
            else:
                lines = split_lines(piece)
                starts = accumulate(map(len, lines), initial=at)
                part = "".join(line for line, start in zip(lines, starts, strict=False) if first <= start < last)
            if part:
                yield part
            at += len(piece)
            if at >= last:
                return


def _share(said: float | tuple[str, ...]) -> Fraction:
    """0.1 is a tenth, not the binary number next to it: cuts fall where one would make them by hand."""
    return Fraction(str(float(said))) if isinstance(said, int | float) else Fraction(0)


def _divide(source: Source, division: Division) -> list[list[Path]]:
    """The files of each part; none is in two of them."""
    own = [[] if isinstance(one, int | float) else find_files(one) for one in (division.validation, division.test)]
    validation, test = ({identity(file) for file in part} for part in own)
    if validation & test:
        raise DataError("`validation` and `test` name the same file. Give each its own.")
    training = [file for file in find_files(source) if identity(file) not in validation | test]
    if not training:
        raise DataError("all of the text's files are in `validation` or `test`. Give others to train on.")
    return [training, *own]


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
