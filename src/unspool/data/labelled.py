"""Labelled sequences from tables: one text per row, or numbers in long form, one row per step; and their targets."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unspool.data.arrays import Arrays, join_arrays, read_arrays
from unspool.data.problems import Problems
from unspool.data.sequences import Indices
from unspool.data.sources import Item
from unspool.data.tables import Table, group_rows
from unspool.errors import DataError


@dataclass(frozen=True)
class Raw:
    """Sequences before they are encoded: texts, or arrays (steps, features), each with its origin and its targets."""

    texts: list[str] | None
    series: list[NDArray[np.float64]] | None
    names: list[str]  # of the sequences: the number of a row, or an id
    place: Callable[[int], str]  # the file and line of a sequence
    targets: list[tuple[Any, ...]] | None  # entries of the target columns, one tuple per sequence; None if not known
    columns: tuple[str, ...] = ()  # that were read: that of the texts, or the features
    target_columns: tuple[str, ...] = ()
    bad: Mapping[int, str] = field(default_factory=dict)  # sequence that could not be read → problem

    def __len__(self) -> int:
        return len(self.names)

    def take(self, indices: Indices) -> Raw:
        """Some of them, in this order."""
        chosen = [int(index) for index in indices]
        return Raw(
            None if self.texts is None else [self.texts[index] for index in chosen],
            None if self.series is None else [self.series[index] for index in chosen],
            [self.names[index] for index in chosen],
            lambda index: self.place(chosen[index]),
            None if self.targets is None else [self.targets[index] for index in chosen],
            self.columns,
            self.target_columns,
            {place: self.bad[index] for place, index in enumerate(chosen) if index in self.bad},
        )


def read_texts(table: Table, column: str, targets: Sequence[str], numbers: bool = False, empty: bool = False) -> Raw:
    """One text per row.

    Args:
        table: The table.
        column: The column of texts.
        targets: Columns of targets; none where they are not known.
        numbers: Whether targets are numbers, not words.
        empty: Whether targets may be empty.
    """
    texts = table.text(column)
    columns = _target_columns(table, targets, numbers, empty)
    found = list(zip(*columns, strict=True)) if columns else None
    names = [str(row) for row in range(len(texts))]
    return Raw(texts, None, names, table.place, found, (column,), tuple(targets), table.bad)


def read_steps(
    table: Table,
    identity: str,
    time: str | None,
    features: Sequence[str],
    targets: Sequence[str],
    numbers: bool = False,
    empty: bool = False,
) -> Raw:
    """Numbers in long form: a row is one step of the sequence that it names.

    Args:
        table: The table.
        identity: The column with the name of the sequence.
        time: The column of times, by which the rows of a sequence must be sorted; None: as they are.
        features: Columns of input.
        targets: Columns of targets, which are the same on all rows of a sequence; none where they are not known.
        numbers: Whether targets are numbers, not words.
        empty: Whether targets may be empty.
    """
    names = table.text(identity)
    rows = group_rows(names)
    if time is not None and not table.tolerant:
        _check_sorted(table, identity, time, names, rows)
    values = np.stack([table.numbers(name) for name in features], axis=1)
    columns = _target_columns(table, targets, numbers, empty)
    for name, column in zip(targets, columns, strict=True):
        _check_same(table, name, column, names, rows)
    firsts = [int(own[0]) for own in rows]
    found = [tuple(column[first] for column in columns) for first in firsts] if columns else None
    series = [values[own] for own in rows]
    own_names = [names[first] for first in firsts]
    return Raw(None, series, own_names, lambda row: table.place(firsts[row]), found, tuple(features), tuple(targets))


def of_texts(texts: Sequence[str], place: Callable[[int], str]) -> Raw:
    """Texts without targets.

    Args:
        texts: The texts.
        place: What a message calls a text.
    """
    return Raw(list(texts), None, [str(row) for row in range(len(texts))], place, None)


def read_array_items(items: Sequence[Item], known: bool, numbers: bool = False) -> Raw:
    """Sequences of .ts and .npz files.

    Args:
        items: The files, each with the split that is meant.
        known: Whether targets are read.
        numbers: Whether targets are numbers, not words.
    """
    found = join_arrays([read_arrays(*item) for item in items])
    if known and found.targets is None:
        paths = ", ".join(str(item.path) for item in items)
        raise DataError(f"{paths}: there are no targets. Give files with a target for each sequence.")
    targets = None
    if known:
        targets = _to_numbers(found) if numbers else [(str(target),) for target in found.targets or ()]
    names = [str(row) for row in range(len(found.series))]
    return Raw(None, found.series, names, found.places.__getitem__, targets)


def _to_numbers(arrays: Arrays) -> list[tuple[float]]:
    problems, found = Problems(), []
    for target, place in zip(arrays.targets or (), arrays.places, strict=True):
        try:
            found.append((float(target),))
        except (ValueError, TypeError):
            problems.add(
                f"{place}: the target is {target!r}, not a number. Give numbers, or for labels `task='classify'`."
            )
    problems.refuse()
    return found


def _target_columns(table: Table, targets: Sequence[str], numbers: bool, empty: bool) -> list[Any]:
    return [table.numbers(name) if numbers else table.text(name, empty=empty) for name in targets]


def _check_sorted(
    table: Table, identity: str, time: str, names: Sequence[str], rows: Sequence[NDArray[np.intp]]
) -> None:
    stamps = table.times(time).moments
    for own in rows:
        late = np.flatnonzero(np.diff(stamps[own]) <= 0)
        if not len(late):
            continue
        row = int(own[late[0] + 1])
        if stamps[row] == stamps[own[late[0]]]:
            problem, remedy = "has the time of the row before it", "Keep one of them"
        else:
            problem, remedy = "is earlier than the row before it", f"Sort the file by `{identity}` and `{time}`"
        raise DataError(f"{table.place(row)}: `{time}` {problem}, in sequence {names[row]!r}. {remedy}.")


def _check_same(table: Table, name: str, column: Any, names: Sequence[str], rows: Sequence[NDArray[np.intp]]) -> None:
    """Refuse a target that changes within a sequence."""
    for own in rows:
        first = column[own[0]]
        for row in own:
            if column[row] != first:
                raise DataError(
                    f"{table.place(int(row))}: `{name}` is {column[row]!r}, but {first!r} on a row before of sequence "
                    f"{names[row]!r}. Give each sequence one target."
                )
