"""Labelled sequences from tables: a text a row, or numbers in long form, one row a step; and what is said of each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unspool.data.sequences import Rows
from unspool.data.tables import Table
from unspool.errors import DataError

#: Names of columns that are taken for what they say, if none is given.
TEXT_NAMES = (
    "text",
    "sentence",
    "utterance",
    "query",
    "content",
    "document",
    "comment",
    "review",
    "smiles",
)
LABEL_NAMES = ("label", "class", "intent", "category", "target", "sentiment", "tag", "y")
TARGET_NAMES = ("target", "y", "value", "score", "rating", "label")


@dataclass(frozen=True)
class Raw:
    """Sequences as people wrote them: texts, or arrays (steps, features); where each is from, and its answers."""

    texts: list[str] | None
    series: list[NDArray[np.float64]] | None
    names: list[str]  # of the sequences: a row's number, or its id
    place: Callable[[int], str]  # the file and line of a sequence
    answers: list[tuple[Any, ...]] | None  # entries of the answers' columns, one tuple a sequence
    columns: tuple[str, ...] = ()  # that were read: the texts', or the features'
    answer_columns: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.names)

    def take(self, rows: Rows) -> Raw:
        """Some of them, in this order."""
        chosen = [int(row) for row in rows]
        return Raw(
            None if self.texts is None else [self.texts[row] for row in chosen],
            None if self.series is None else [self.series[row] for row in chosen],
            [self.names[row] for row in chosen],
            lambda row: self.place(chosen[row]),
            None if self.answers is None else [self.answers[row] for row in chosen],
            self.columns,
            self.answer_columns,
        )


def read_texts(table: Table, column: str, answers: Sequence[str], numbers: bool = False) -> Raw:
    """A text a row; `answers` are columns of words, or of numbers."""
    texts = table.text(column)
    columns = [table.numbers(name) if numbers else table.text(name) for name in answers]
    found = list(zip(*columns, strict=True)) if columns else None
    return Raw(texts, None, [str(row) for row in range(len(texts))], table.place, found, (column,), tuple(answers))


def read_steps(
    table: Table,
    identity: str,
    time: str | None,
    features: Sequence[str],
    answers: Sequence[str],
    numbers: bool = False,
) -> Raw:
    """Numbers in long form: a row is a step of the sequence whose name it has; answers are the same on all of them."""
    names = table.text(identity)
    order = list(dict.fromkeys(names))
    number = {name: place for place, name in enumerate(order)}
    owner = np.array([number[name] for name in names])
    by_owner = np.argsort(owner, kind="stable")
    rows = np.split(by_owner, np.flatnonzero(np.diff(owner[by_owner])) + 1)
    if time is not None:
        stamps = table.times(time).moments
        for own in rows:
            late = np.flatnonzero(np.diff(stamps[own]) <= 0)
            if len(late):
                row = int(own[late[0] + 1])
                same = stamps[row] == stamps[own[late[0]]]
                what = "has the time of the row before it" if same else "is earlier than the row before it"
                remedy = "Keep one of them" if same else f"Sort the file by `{identity}` and `{time}`"
                raise DataError(f"{table.place(row)}: `{time}` {what}, in sequence {names[row]!r}. {remedy}.")
    values = np.stack([table.numbers(name) for name in features], axis=1)
    columns = [table.numbers(name) if numbers else table.text(name) for name in answers]
    for name, column in zip(answers, columns, strict=True):
        for own in rows:
            for row in own:
                if column[row] != column[own[0]]:
                    raise DataError(
                        f"{table.place(int(row))}: `{name}` is {column[row]!r}, but {column[own[0]]!r} on a row before "
                        f"of sequence {names[row]!r}. Give a sequence one answer."
                    )
    firsts = [int(own[0]) for own in rows]
    found = [tuple(column[first] for column in columns) for first in firsts] if columns else None
    series, columns_read = [values[own] for own in rows], tuple(features)
    return Raw(None, series, order, lambda row: table.place(firsts[row]), found, columns_read, tuple(answers))


def guess_column(table: Table, names: Sequence[str], what: str, option: str, others: Sequence[str] = ()) -> str:
    """The column of a well-known name, or the only one that is left; else the user must say it."""
    free = [column for column in table.columns if column not in others]
    small = {column.lower(): column for column in free}
    found = next((small[name] for name in names if name in small), free[0] if len(free) == 1 else None)
    if found is None:
        raise DataError(
            f"{table.files[0]} has the columns {', '.join(map(repr, table.columns))}: which has {what} is not clear. "
            f"Say it: {option}{'' if option.endswith('=') else ' '}NAME."
        )
    return found
