"""Tagged text: words and their tags from column files."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path

from unspool.data.problems import Problems
from unspool.data.schemes import Scheme, check_scheme, find_letters, find_violations, is_tag, mend_tags, tag_remedy
from unspool.data.text import Source, find_files, read_lines
from unspool.errors import DataError

DOCUMENT = "-DOCSTART-"
#: The word of a line that has a tag and no word: published files have such lines where the text has a blank.
BLANK = " "


@dataclass(frozen=True)
class Sentence:
    """Words, their tags (none where only words were read), and the place of the first word."""

    words: tuple[str, ...]
    tags: tuple[str, ...]
    line: int  # in the file; the sentence's number where there is no file
    file: Path | None
    lines_per_word: int = 1  # 0 where a sentence is a line
    label: str = ""  # of the whole sentence, where it has one

    def place(self, word: int) -> str:
        """The file and line of a word."""
        if self.file is None:
            return f"sentence {self.line}, word {word}"
        return f"{self.file}, line {self.line + self.lines_per_word * word}"


def read_tagged(files: Source, tags: bool = True) -> list[Sentence]:
    """Read column files: one word per line, an empty line between sentences.

    The first column is the word and the last one the tag. Columns are separated by tabs in a line that has one, else
    by spaces; by no other white space. A line with a tag and no word is a blank. Lines that start with -DOCSTART- are
    skipped.

    Args:
        files: Files, folders and patterns.
        tags: Whether tags are read; without them one column is enough.

    Returns:
        The sentences of all files.

    Raises:
        DataError: Lines cannot be read; all of them are in one message.

    Example:
        read_tagged("train.conll")[0].words  # ("Anna", "sang")
    """
    return [sentence for file in find_files(files) for sentence in _read_file(file, tags)]


def _read_file(file: Path, tagged: bool) -> list[Sentence]:
    numbered = list(_rows(file))
    widths = Counter(len(row) for _, row in numbered if row)
    if not widths:
        raise DataError(f"{file} has no words. Give a file with a word and its tag on each line.")
    width = widths.most_common(1)[0][0]
    numbered = [(line, _fit_row(row, width, tagged)) for line, row in numbered]
    _check_rows(file, [(line, row) for line, row in numbered if row], width, tagged)
    groups = groupby(numbered, key=lambda row: bool(row[1]))
    return [_make_sentence(file, list(group), tagged) for filled, group in groups if filled]


def _check_rows(file: Path, rows: Iterable[tuple[int, Sequence[str]]], width: int, tagged: bool) -> None:
    """Refuse rows that lack a column, all at once; where no tags are read, warn of them."""
    found = [(line, _find_problem(row, width, tagged)) for line, row in rows]
    problems = Problems(f"{file}, line {line}: {problem}" for line, problem in found if problem)
    if tagged:
        problems.refuse()
    problems.warn("Of these lines only the first column is read.")


def _make_sentence(file: Path, numbered: Sequence[tuple[int, list[str]]], tagged: bool) -> Sentence:
    words = tuple(row[0] or BLANK for _, row in numbered)
    tags = tuple(row[-1] for _, row in numbered) if tagged else ()
    return Sentence(words, tags, numbered[0][0], file)


def _rows(file: Path) -> Iterator[tuple[int, list[str]]]:
    """The number and the columns of each line; no columns where a sentence ends."""
    for line, text in enumerate(read_lines(file), 1):
        yield line, split_columns(text.removesuffix("\n"))


def split_columns(text: str) -> list[str]:
    """The columns of a line, the first empty where it starts with a space; none if there is no word in it."""
    if not text.strip(" \t"):
        return []
    columns = [column.strip(" ") for column in text.split("\t")] if "\t" in text else re.split(" +", text.rstrip(" "))
    return [] if columns[0] == DOCUMENT else columns


def _fit_row(row: list[str], width: int, tagged: bool) -> list[str]:
    """The columns of a line; in a file of words alone, a space before a word separates nothing."""
    return row[1:] if not tagged and width == 1 and len(row) == 2 and not row[0] else row


def _find_problem(row: Sequence[str], width: int, tagged: bool) -> str | None:
    """What is wrong with the columns of a line, and what to do."""
    if tagged and len(row) == 1:
        return f"{row[0]!r} has no tag. Write the tag after the word, separated by a tab or a space."
    if tagged and not row[-1]:
        return f"the tag of {row[0]!r} is empty. Write the tag after the last tab."
    if len(row) != width:
        return (
            f"there are {len(row)} columns, and most lines have {width}. Give all lines the same columns; where words "
            "have spaces in them, separate the columns by tabs."
        )
    return None


def mend_sentences(
    sentences: Iterable[Sentence], scheme: Scheme, letters: Mapping[str, str] | None = None
) -> list[Sentence]:
    """Sentences with tags that obey the scheme.

    Tags that violate it are read as conlleval reads them: a tag that continues no span starts one, and an open span
    ends where the next tag does not continue it. A warning counts them.

    Args:
        sentences: Tagged sentences.
        scheme: Their scheme.
        letters: How B, I, E and S are spelled, as `find_letters` says; None: as in these sentences.

    Returns:
        The sentences; the same where nothing is wrong.

    Raises:
        DataError: Tags that the scheme does not have; all of them are in one message.

    Example:
        mend_sentences(read_tagged("train.conll"), "bio")
    """
    check_scheme(scheme)
    several = list(sentences)
    _refuse_strange_tags(several, scheme)
    if letters is None:
        letters = find_letters(tag for sentence in several for tag in sentence.tags)
    problems, found = Problems(), []
    for sentence in several:
        violations = find_violations(sentence.tags, scheme)
        for place, problem in violations:
            problems.add(f"{sentence.place(place)}: {problem}.")
        mended = tuple(mend_tags(sentence.tags, scheme, letters)) if violations else sentence.tags
        found.append(replace(sentence, tags=mended))
    problems.warn(f"Tags violate the scheme {scheme}, and are read as conlleval reads them.")
    return found


def _refuse_strange_tags(sentences: Iterable[Sentence], scheme: Scheme) -> None:
    problems = Problems()
    for sentence in sentences:
        if len(sentence.tags) != len(sentence.words):
            problems.add(
                f"{sentence.place(0)}: a sentence of {len(sentence.words)} words has {len(sentence.tags)} tags. "
                "Give each word a tag."
            )
        for number, tag in enumerate(sentence.tags):
            if not is_tag(tag, scheme):
                place = sentence.place(number)
                problems.add(f"{place}: {tag!r} is no tag of the scheme {scheme}. {tag_remedy(scheme)}.")
    problems.refuse()
