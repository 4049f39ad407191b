"""Labelled sequences from tables: one text per row, or numbers in long form, one row per step; and their targets."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from unspool.data.arrays import Arrays, join_arrays, read_arrays
from unspool.data.problems import Problems
from unspool.data.sequences import Indices
from unspool.data.sources import Item
from unspool.data.tables import Table, group_rows
from unspool.data.times import Moments, read_times
from unspool.errors import DataError

if TYPE_CHECKING:
    import polars as pl

Entry = TypeVar("Entry")


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
    rows: pl.DataFrame | None = field(default=None, compare=False)  # of a table, one each, to be kept with predictions

    def __len__(self) -> int:
        return len(self.names)

    def take(self, indices: Indices) -> Raw:
        """Some of them, in this order."""
        chosen = [int(index) for index in indices]
        return Raw(
            _take(self.texts, chosen),
            _take(self.series, chosen),
            [self.names[index] for index in chosen],
            lambda index: self.place(chosen[index]),
            _take(self.targets, chosen),
            self.columns,
            self.target_columns,
            {place: self.bad[index] for place, index in enumerate(chosen) if index in self.bad},
        )


def _take(entries: Sequence[Entry] | None, chosen: Sequence[int]) -> list[Entry] | None:
    return None if entries is None else [entries[index] for index in chosen]


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
    rows = table.frame if _keeps_rows(table) else None
    return Raw(texts, None, names, table.place, found, (column,), tuple(targets), table.bad, rows)


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
        time: The column of times, by which the rows of a sequence must be sorted; None: as they are. In a tolerant
            table, a sequence that is not, or lacks a row that cannot be read, is noted in `bad`.
        features: Columns of input.
        targets: Columns of targets, which are the same on all rows of a sequence; none where they are not known.
        numbers: Whether targets are numbers, not words.
        empty: Whether targets may be empty.
    """
    names = table.text(identity)
    rows, bad = _group(table, identity, time, names)
    values = np.stack([table.numbers(name) for name in features], axis=1)
    columns = _target_columns(table, targets, numbers, empty)
    for name, column in zip(targets, columns, strict=True):
        _check_same(table, name, column, names, rows)
    firsts = [int(own[0]) for own in rows]
    found = [tuple(column[first] for column in columns) for first in firsts] if columns else None
    series = [values[own] for own in rows]
    own_names = [names[first] for first in firsts]
    shared = _shared_columns(table, identity, rows) if _keeps_rows(table) else []
    kept = table.frame.select(shared)[firsts] if shared else None
    return Raw(
        *(None, series, own_names, lambda row: table.place(firsts[row]), found),
        *(tuple(features), tuple(targets), bad, kept),
    )


def _keeps_rows(table: Table) -> bool:
    """Whether predictions are made for a table, which is tolerant then; without a header, columns have only numbers."""
    return table.tolerant and not all(column.isdigit() for column in table.columns)


def _shared_columns(table: Table, identity: str, rows: Sequence[NDArray[np.intp]]) -> list[str]:
    """The columns that are the same on all rows of each sequence, as its id is."""
    order = np.concatenate(rows)
    starts = np.cumsum([0, *map(len, rows[:-1])])
    within = np.setdiff1d(np.arange(1, len(order)), starts)  # rows that follow one of the same sequence
    sorted_rows = table.frame[order]
    found = []
    for column in sorted_rows.columns:
        entries = sorted_rows[column]
        if column == identity or (entries[within].eq_missing(entries[within - 1])).all():
            found.append(column)
    return found


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
    targets = _read_targets(found, numbers) if known else None
    names = [str(row) for row in range(len(found.series))]
    return Raw(None, found.series, names, found.places.__getitem__, targets)


def _read_targets(arrays: Arrays, numbers: bool) -> list[tuple[Any, ...]]:
    """The targets of arrays as numbers, or as words; words in place of numbers are refused, all at once."""
    if not numbers:
        return [(str(target),) for target in arrays.targets or ()]
    problems, found = Problems(), list[tuple[Any, ...]]()
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


def _group(
    table: Table, identity: str, time: str | None, names: Sequence[str]
) -> tuple[list[NDArray[np.intp]], dict[int, str]]:
    """The rows of each sequence, and which sequences have problems; these are refused unless the table is tolerant."""
    lost = _find_lost(table, identity, names)
    named = np.setdiff1d(np.arange(len(names)), [*lost])
    if not len(named):
        Problems(lost.values()).refuse()
    rows = [named[own] for own in group_rows([names[row] for row in named])]
    late = {} if time is None else _find_disorder(table, identity, time, names, rows)
    bad = {**late, **_assign_lost(lost, named, rows)}
    if bad and not table.tolerant:
        raise DataError(next(iter(bad.values())))
    return rows, bad


def _find_lost(table: Table, identity: str, names: Sequence[str]) -> dict[int, str]:
    """The rows that do not say which sequence they are of, and why."""
    empty = f"`{identity}` is empty. Fill it in, or leave the row out."
    return {row: table.bad.get(row, f"{table.place(row)}: {empty}") for row, name in enumerate(names) if not name}


def _assign_lost(lost: Mapping[int, str], named: NDArray[np.intp], rows: Sequence[NDArray[np.intp]]) -> dict[int, str]:
    """Rows without a name, as problems of the sequences before and after them, one of which lacks a step."""
    if not lost:
        return {}
    sequence_of = {int(row): number for number, own in enumerate(rows) for row in own}
    found: dict[int, str] = {}
    for row, problem in lost.items():
        after = int(np.searchsorted(named, row))
        for neighbor in named[max(after - 1, 0) : after + 1]:
            found.setdefault(sequence_of[int(neighbor)], problem)
    return found


def _find_disorder(
    table: Table, identity: str, time: str, names: Sequence[str], rows: Sequence[NDArray[np.intp]]
) -> dict[int, str]:
    """The sequences whose rows are not sorted by time, or, in a tolerant table, have none; and what is wrong."""
    found: dict[int, str] = {}
    for number, (own, stamps) in enumerate(zip(rows, _read_stamps(table, time, rows), strict=True)):
        if isinstance(stamps, str):
            found[number] = stamps
            continue
        late = np.flatnonzero(np.diff(stamps) <= 0)
        if not len(late):
            continue
        row = int(own[late[0] + 1])
        if stamps[late[0] + 1] == stamps[late[0]]:
            problem, remedy = "has the time of the row before it", "Keep one of them"
        else:
            problem, remedy = "is earlier than the row before it", f"Sort the file by `{identity}` and `{time}`"
        found[number] = f"{table.place(row)}: `{time}` {problem}, in sequence {names[row]!r}. {remedy}."
    return found


def _read_stamps(table: Table, time: str, rows: Sequence[NDArray[np.intp]]) -> Iterator[Moments | str]:
    """The times of each sequence; in a tolerant table, the problem where they cannot be read."""
    entries = table.text(time)
    whole = _read_all(table, time, entries)
    for own in rows:
        try:
            yield _read_own(table, time, entries, own) if whole is None else whole[own]
        except DataError as error:
            yield str(error)


def _read_all(table: Table, time: str, entries: Sequence[str]) -> Moments | None:
    """All times at once; None where a tolerant table has some that cannot be read."""
    if not table.tolerant:
        return table.times(time).moments
    try:
        return table.times(time).moments if all(entries) else None
    except DataError:
        return None


def _read_own(table: Table, time: str, entries: Sequence[str], own: NDArray[np.intp]) -> Moments:
    """The times of one sequence, read alone."""
    for row in own:
        if not entries[row]:
            raise DataError(f"{table.place(int(row))}: `{time}` is empty. Fill it in, or leave the row out.")
    return read_times([entries[row].strip() for row in own], lambda place: table.place(int(own[place]))).moments


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
