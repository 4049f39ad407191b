"""A corpus: text files divided into training, validation and test, as tokens in mapped files that are made once."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from unspool.data.text import Source, find_files, read_pieces, whole_lines
from unspool.data.tokens import Ids, map_tokens, write_tokens
from unspool.data.vocabulary import Vocabulary, find_kind, load_vocabulary
from unspool.errors import ArgumentError, DataError, UnknownNameError

PARTS = ("training", "validation", "test")
SPLITS = ("tail", "lines")
#: Changes when what is in the folder of a corpus changes its meaning.
FORMAT = 1
#: Bytes of lines that are shuffled in memory at a time.
BUCKET = 16 << 20


@dataclass(frozen=True)
class Division:
    """Which part of a text is for what.

    `validation` and `test` are shares of the text, or files of their own. Shares are cut off the text's end ("tail"),
    so that they continue what was trained on; or, with "lines", each line goes by its content and the seed to one part,
    equal lines to the same part, and each part's lines are shuffled: for lists of names, poems or sentences.
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
        if self.shares[0] + self.shares[1] >= 1:
            raise ArgumentError("`validation` and `test` leave nothing to train on. Give shares that sum to below 1.")

    @property
    def shares(self) -> tuple[float, float]:
        """Of the first text: what goes to validation, and to test."""
        return tuple(share if isinstance(share, int | float) else 0.0 for share in (self.validation, self.test))  # type: ignore[return-value]


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
    """The corpus of text files; taken from the cache where the same was prepared before."""
    kind = find_kind(tokens)
    files = [find_files(source), *map(_own_files, (division.validation, division.test))]
    counts, digest = _measure(files)
    if counts[0] < 2:
        raise DataError(f"{_names(files[0])} has {counts[0]} character(s). Give text to learn from.")
    document = None if vocabulary is None else json.dumps(vocabulary.dump())
    said = [FORMAT, digest, tokens, limit, division.split, division.shares, division.seed, document]
    key = hashlib.sha256(json.dumps(said).encode()).hexdigest()[:32]
    folder = cache_folder() / key
    if not folder.is_dir():
        _make(folder, _Text(files, counts, division, tokens in ("characters", "bytes")), kind, limit, vocabulary)
    vocabulary = load_vocabulary(json.loads((folder / "vocabulary.json").read_text(encoding="utf-8")))
    training, validation, test = (map_tokens(folder / part, len(vocabulary)) for part in PARTS)
    return Corpus(vocabulary, training, validation, test, digest)


@dataclass(frozen=True)
class _Text:
    files: Sequence[Sequence[Path]]  # of each part; training's also hold the shares
    counts: Sequence[int]
    division: Division
    exact: bool  # cuts fall between any two characters, not only between lines

    def parts(self, folder: Path) -> list[Iterable[str]]:
        """The text of each part, to be read as often as one likes; `folder` holds shuffled lines."""
        if self.division.split == "lines":
            shuffled = _shuffle(self.files[0], self.counts[0], self.division, folder)
            first = [_Pieces([path]) for path in shuffled]
        else:
            validation, test = (int(share * self.counts[0]) for share in self.division.shares)
            ends = self.counts[0] - validation - test, self.counts[0] - test, self.counts[0]
            starts = 0, *ends[:2]
            first = [_Pieces(self.files[0], span, self.exact) for span in zip(starts, ends, strict=True)]
        own = [self.division.validation, self.division.test]
        return [
            first[0],
            *(_Pieces(self.files[n + 1]) if not isinstance(own[n], int | float) else first[n + 1] for n in (0, 1)),
        ]


@dataclass(frozen=True)
class _Pieces:
    """Characters `span` of some files; where cuts are not exact, a part begins after the line that a cut falls into."""

    files: Sequence[Path]
    span: tuple[int, int] | None = None
    exact: bool = True

    def __iter__(self) -> Iterator[str]:
        pieces = read_pieces(self.files)
        if self.span is None:
            yield from pieces
            return
        at, (first, last) = 0, self.span
        for piece in pieces if self.exact else (line for lines in whole_lines(pieces) for line in lines):
            if self.exact:
                part = piece[max(0, first - at) : max(0, last - at)]
                if part:
                    yield part
            elif first <= at < last:
                yield piece
            at += len(piece)
            if at >= last:
                return


def _shuffle(files: Sequence[Path], count: int, division: Division, folder: Path) -> list[Path]:
    """Files with each part's lines. They are dealt into buckets by hash, and each bucket is sorted by hash."""
    key = division.seed.to_bytes(8, "little", signed=True)
    validation, test = division.shares
    paths = [folder / f"{part}.txt" for part in PARTS]
    buckets = [folder / f"bucket-{number}" for number in range(1 + 4 * count // BUCKET)]
    streams = [path.open("wb") for path in buckets]
    for lines in whole_lines(read_pieces(files)):
        for line in lines:
            raw = line.removesuffix("\n").encode()
            mark = hashlib.blake2b(raw, digest_size=8, key=key).hexdigest().encode()
            if raw:
                streams[int(mark[:8], 16) % len(streams)].write(mark + raw + b"\n")
    for stream in streams:
        stream.close()
    outputs = [path.open("wb") for path in paths]
    for bucket in buckets:
        for entry in sorted(bucket.read_bytes().split(b"\n")):
            if entry:
                share = int(entry[8:16], 16) / 2**32
                outputs[1 if share < validation else 2 if share < validation + test else 0].write(entry[16:] + b"\n")
        bucket.unlink()
    for output in outputs:
        output.close()
    return paths


def _own_files(share: float | tuple[str, ...]) -> list[Path]:
    return [] if isinstance(share, int | float) else find_files(share)


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


def _make(folder: Path, text: _Text, kind: type[Vocabulary], limit: int | None, vocabulary: Vocabulary | None) -> None:
    folder.parent.parent.mkdir(mode=0o700, parents=True, exist_ok=True)  # kernels lie there too
    folder.parent.mkdir(exist_ok=True)
    made = Path(tempfile.mkdtemp(dir=folder.parent, prefix=".making-"))
    try:
        parts = text.parts(made)
        vocabulary = vocabulary or kind.fit(parts[0], limit)
        for name, part in zip(PARTS, parts, strict=True):
            write_tokens(made / name, vocabulary.encode(part), len(vocabulary))
        for left in made.glob("*.txt"):
            left.unlink()
        (made / "vocabulary.json").write_text(json.dumps(vocabulary.dump(), ensure_ascii=False), encoding="utf-8")
        try:
            made.rename(folder)
        except OSError:
            if not folder.is_dir():  # otherwise another process has just made the same
                raise
    except OSError as error:
        raise DataError(
            f"the tokens cannot be kept in {folder.parent}: {error.strerror}. Set UNSPOOL_CACHE to a folder with room."
        ) from error
    finally:
        shutil.rmtree(made, ignore_errors=True)


def cache_folder() -> Path:
    """Where prepared corpora are kept: below UNSPOOL_CACHE or the user's cache."""
    chosen = os.environ.get("UNSPOOL_CACHE")
    base = Path(chosen) if chosen else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "unspool"
    return base / "tokens"


def _names(files: Sequence[Path]) -> str:
    return str(files[0]) if len(files) == 1 else f"what is in {len(files)} files"
