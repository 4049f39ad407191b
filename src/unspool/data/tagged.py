"""Tagged text: words and their tags from column files, and the spans that tags mark."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from math import inf
from pathlib import Path
from typing import Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from unspool.data.text import Source, find_files, read_pieces, split_lines, whole_lines
from unspool.errors import ArgumentError, DataError, UnknownNameError

#: How tags mark spans.
#:
#:   bio    B-x starts a span of kind x, I-x continues it, O is outside.
#:   bioes  also E-x ends a span of several words, and S-x is one of a single word. M is another letter for I (BMES), L
#:          for E and U for S (BILOU).
#:   io     a run of equal tags other than O is a span; I-x is the same as x. Plain tags, as of parts of speech, too.
#:
#: The first two may have no kinds: B, M, E and S alone mark the words of a text without spaces.
Scheme = Literal["bio", "bioes", "io"]

OUTSIDE = "O"
DOCUMENT = "-DOCSTART-"
#: By scheme, the letters that tags may start with, and which of B, I, E and S each of them means.
LETTERS = {"bio": {"B": "B", "I": "I"}, "bioes": dict(zip("BIMELSU", "BIIEESS", strict=True))}


@dataclass(frozen=True)
class Sentence:
    """Words, their tags (none where only words were read), and the place of the first word."""

    words: tuple[str, ...]
    tags: tuple[str, ...]
    line: int  # in the file; the sentence's number where there is no file
    file: Path | None

    def place(self, word: int) -> str:
        """The file and line of a word."""
        if self.file is None:
            return f"sentence {self.line}, word {word}"
        return f"{self.file}, line {self.line + word}"


class Span(NamedTuple):
    """Words from `first` up to, and without, `last_exclusive`, of one `kind`."""

    kind: str
    first: int
    last_exclusive: int


class Transitions(NamedTuple):
    """What a scheme permits: tags that may start (K), [i, j] where j may follow i (K, K), tags that may end (K)."""

    start: NDArray[np.bool_]
    between: NDArray[np.bool_]
    end: NDArray[np.bool_]


def read_tagged(files: Source, tags: bool = True) -> list[Sentence]:
    """Read column files: one word per line, an empty line between sentences.

    The first column is the word and the last one the tag. Columns are separated by tabs in a line that has one, else
    by spaces; by no other white space.

    Args:
        files: Files, folders and patterns.
        tags: Whether tags are read; without them one column is enough.

    Returns:
        The sentences of all files.

    Example:
        read_tagged("train.conll")[0].words  # ("Anna", "sang")
    """
    return [sentence for file in find_files(files) for sentence in _read_file(file, tags)]


def _read_file(file: Path, tagged: bool) -> list[Sentence]:
    sentences = []
    for filled, group in groupby(_rows(file, tagged), key=lambda row: bool(row[1])):
        if filled:
            lines, rows = zip(*group, strict=True)
            tags = tuple(row[-1] for row in rows) if tagged else ()
            sentences.append(Sentence(tuple(row[0] for row in rows), tags, lines[0], file))
    if not sentences:
        raise DataError(f"{file} has no words. Give a file with a word and its tag on each line.")
    return sentences


def _rows(file: Path, tagged: bool) -> Iterator[tuple[int, list[str]]]:
    """The number and the columns of each line; no columns where a sentence ends."""
    pieces = whole_lines(read_pieces([file]), longest=inf)
    columns = 0
    for line, text in enumerate((line for piece in pieces for line in split_lines(piece)), 1):
        row = _columns(text.removesuffix("\n"))
        if row:
            _check_row(row, f"{file}, line {line}", columns, tagged)
            columns = len(row)
        yield line, row


def _columns(text: str) -> list[str]:
    """The columns of a line, the first empty where it starts with a space; none if there is no word in it."""
    if not text.strip(" \t"):
        return []
    columns = [column.strip(" ") for column in text.split("\t")] if "\t" in text else re.split(" +", text.rstrip(" "))
    return [] if columns[0] == DOCUMENT else columns


def _check_row(row: list[str], place: str, columns: int, tagged: bool) -> None:
    if not row[0]:
        raise DataError(f"{place}: the word before {' '.join(row[1:])!r} is empty. Start each line with its word.")
    if tagged and len(row) == 1:
        raise DataError(f"{place}: {row[0]!r} has no tag. Write the tag after the word, separated by a tab or a space.")
    if tagged and not row[-1]:
        raise DataError(f"{place}: the tag of {row[0]!r} is empty. Write the tag after the last tab.")
    if columns and len(row) != columns:
        raise DataError(
            f"{place}: there are {len(row)} columns, and {columns} in the lines before. Give all lines "
            "the same columns; where words have spaces in them, separate the columns by tabs."
        )


class _Form(NamedTuple):
    """The meaning of a tag, however it is spelled."""

    letter: str
    kind: str


_NOTHING = _Form(OUTSIDE, "")


def _form(tag: object, scheme: Scheme) -> _Form | None:
    """None if the scheme has no such tag."""
    if not isinstance(tag, str):
        return None
    if tag == OUTSIDE:
        return _NOTHING
    if scheme == "io":
        kind = tag.removeprefix("I-")
        return _Form("I", kind) if kind else None
    letter, dash, kind = tag.partition("-")
    if letter not in LETTERS[scheme] or (dash and not kind):
        return None
    return _Form(LETTERS[scheme][letter], kind)


def _goes_on(before: _Form, after: _Form) -> bool:
    return before.letter in "BI" and after.letter in "IE" and before.kind == after.kind


def _may_follow(before: _Form, after: _Form, scheme: Scheme) -> bool:
    if scheme == "io":
        return True
    if after.letter in "IE":
        return _goes_on(before, after)
    return scheme == "bio" or before.letter not in "BI"


def guess_scheme(tags: Iterable[str]) -> Scheme:
    """The scheme of tags, by their letters: one of spans if there is a B-x, or if all tags fit one.

    Example:
        guess_scheme(["O", "B-name", "I-name"])  # "bio"
    """
    several = {*tags}
    if not several:
        raise ArgumentError.of("tags", [], "is empty", "Give the tags of some sentences")
    fitting = {tag for tag in several if _form(tag, "bioes")}
    letters = {tag.partition("-")[0] for tag in fitting}
    if any(tag.startswith("B-") for tag in fitting) or (fitting == several and letters & {"B", "S", "U"}):
        return "bioes" if letters - {"B", "I", OUTSIDE} else "bio"
    return "io"


def check_tags(sentences: Iterable[Sentence], scheme: Scheme) -> None:
    """Refuse the first tag that the scheme does not have, or that may not follow the one before it."""
    _check_scheme(scheme)
    for sentence in sentences:
        if len(sentence.tags) != len(sentence.words):
            raise DataError(
                f"{sentence.place(0)}: a sentence of {len(sentence.words)} words has {len(sentence.tags)} tags. "
                "Give each word a tag."
            )
        before = _NOTHING
        for number, tag in enumerate((*sentence.tags, OUTSIDE)):
            after = _form(tag, scheme)
            if after is None:
                raise DataError(
                    f"{sentence.place(number)}: {tag!r} is no tag of the scheme {scheme}. {_remedy(scheme)}."
                )
            if not _may_follow(before, after, scheme):
                raise DataError(_misfit(sentence, number, after))
            before = after


def _misfit(sentence: Sentence, number: int, after: _Form) -> str:
    """What is wrong at a tag, or at the one before it if its span should have continued."""
    tags = (*sentence.tags, OUTSIDE)
    if after.letter in "IE":
        where = f"after {tags[number - 1]!r}" if number else "at the start of a sentence"
        return (
            f"{sentence.place(number)}: {tags[number]!r} {where} continues no span of its kind. "
            "Start each span with its B-; in the older IOB, where only adjacent spans have one, add it to the others."
        )
    where = f"before {tags[number]!r}" if number < len(sentence.tags) else "at the end of a sentence"
    return (
        f"{sentence.place(number - 1)}: {tags[number - 1]!r} {where} leaves its span open. "
        "End a span of several words with its E-, and give a single word an S-."
    )


def spans(tags: Sequence[str], scheme: Scheme) -> list[Span]:
    """The spans that tags mark, in order, even where the tags violate the scheme, as those of a model may.

    As in conlleval, a tag that continues nothing starts a span, and a span without an end ends where the next tag
    does not continue it.

    Example:
        spans(["B-name", "I-name", "O"], "bio")  # [Span("name", 0, 2)]
    """
    found: list[Span] = []
    first = 0
    for place, (before, after) in enumerate(pairwise((_NOTHING, *_forms(tags, scheme), _NOTHING))):
        if not _goes_on(before, after):
            if before != _NOTHING:
                found.append(Span(before.kind, first, place))
            first = place
    return found


def transitions(tags: Sequence[str], scheme: Scheme) -> Transitions:
    """Which of K tags may start a sentence, follow each other and end one, in the order of `tags`."""
    forms = _forms(tags, scheme)
    if not forms:
        raise ArgumentError.of("tags", tags, "is empty", "Give the tags of some sentences")
    return Transitions(
        np.array([_may_follow(_NOTHING, after, scheme) for after in forms]),
        np.array([[_may_follow(before, after, scheme) for after in forms] for before in forms]),
        np.array([_may_follow(before, _NOTHING, scheme) for before in forms]),
    )


def _forms(tags: Sequence[str], scheme: Scheme) -> list[_Form]:
    _check_scheme(scheme)
    forms = []
    for place, tag in enumerate(tags):
        form = _form(tag, scheme)
        if form is None:
            raise ArgumentError.of(f"tags[{place}]", tag, f"is no tag of the scheme {scheme}", _remedy(scheme))
        forms.append(form)
    return forms


def _check_scheme(scheme: Scheme) -> None:
    if scheme not in get_args(Scheme):
        raise UnknownNameError.among("scheme", scheme, get_args(Scheme))


def _remedy(scheme: Scheme) -> str:
    if scheme == "io":
        return "Give a tag, such as PER, I-PER or O"
    return f"Give O, or one of {', '.join(LETTERS[scheme])} with a kind, such as B-PER, or read plain tags as io"
