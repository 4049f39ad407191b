"""JSON and JSON lines as columns: records, pairs of text and label, lists of equal length; and splits of such."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from unspool.data.chunks import Columns, make_columns, read_whole
from unspool.data.problems import Problems
from unspool.errors import DataError

#: The columns of records that are lists: a text and its label.
PAIR = ("text", "label")
SHAPES = (
    'a list of records [{"text": …, "label": …}, …] or of pairs [["text", "label"], …], '
    'lists of equal length {"text": [...], "label": [...]}, or splits {"train": [...], "test": [...]} of these'
)
#: A record, or a list that is one.
Record = Mapping[str, Any] | Sequence[Any]


def read_json_lines(file: Path, bad: dict[int, str] | None = None) -> Columns:
    """One record per line.

    Args:
        file: The file.
        bad: Takes the rows that cannot be read, whose entries are then missing: row → problem. None: they are refused.
    """
    records: list[Record] = []
    lines: list[int] = []
    found: dict[int, str] = {}
    for number, line in enumerate(read_whole(file).split("\n"), 1):
        if not line.strip():
            continue
        try:
            records.append(_check_record(_parse(line)))
        except ValueError as error:
            found[len(records)] = f"{file}, line {number}: {error}"
            records.append({})
        lines.append(number)
    if bad is None:
        Problems(found.values()).refuse()
    else:
        bad |= found
    return make_columns(_to_columns(records), lines)


def read_json(file: Path, split: str = "") -> Columns:
    """The records of a JSON file, or of one of its splits."""
    records = _find_records(file, split)
    problems = Problems()
    for number, record in enumerate(records, 1):
        try:
            _check_record(record)
        except ValueError as error:
            problems.add(f"{file}, row {number}: {error}")
    problems.refuse()
    return make_columns(_to_columns(records), list(range(1, len(records) + 1)))


def find_json_splits(file: Path) -> list[str]:
    """The names of the splits of a JSON file; none where it has no splits."""
    document = _load(file, *_state(file))
    return list(document) if _has_splits(document) else []


def is_json(file: Path) -> bool:
    """Whether a file is a JSON document of any shape."""
    try:
        _load(file, *_state(file))
    except DataError:
        return False
    return True


def is_json_records(file: Path) -> bool:
    """Whether a file is JSON of a known shape."""
    try:
        _find_records(file, "")
    except DataError:
        return False
    return True


def _find_records(file: Path, split: str) -> Sequence[Record]:
    document = _load(file, *_state(file))
    if _has_splits(document):
        return _of_split(file, document, split)
    found: Sequence[Record] | None
    if isinstance(document, dict):
        found = _rows_of_columns(document) or _only_records(document.values())
    else:
        found = _only_records([document])
    if found is None:
        raise DataError(f"{file} is JSON of a shape that is not known. Known: {SHAPES}.")
    return found


def _of_split(file: Path, document: Mapping[str, Sequence[Record]], split: str) -> list[Record]:
    """The records of a split; "" for all."""
    if split and split not in document:
        raise DataError(f"{file} has no split {split!r}. It has: {', '.join(document)}.")
    return [record for name in ([split] if split else document) for record in document[name]]


def _rows_of_columns(document: Mapping[str, Any]) -> Sequence[Record] | None:
    """Records, from lists of equal length."""
    if not _are_columns(document):
        return None
    return [dict(zip(document, row, strict=True)) for row in zip(*document.values(), strict=True)]


def _only_records(values: Iterable[Any]) -> Sequence[Record] | None:
    """The only list of records among several values."""
    lists = [value for value in values if _are_records(value)]
    return lists[0] if len(lists) == 1 else None


def _state(file: Path) -> tuple[int, int]:
    status = file.stat()
    return status.st_mtime_ns, status.st_size


@lru_cache(maxsize=1)
def _load(file: Path, _changed: int, _size: int) -> Any:
    try:
        return _parse(read_whole(file))
    except ValueError as error:
        raise DataError(f"{file}: {error}") from error


def _parse(text: str) -> Any:
    try:
        found = json.loads(text)
        if "\\u" in text:
            json.dumps(found, ensure_ascii=False).encode()  # half of a surrogate pair is no text
    except (ValueError, RecursionError) as error:
        raise ValueError(f"not JSON: {error}. Correct it, or leave it out.") from error
    return found


def _has_splits(document: Any) -> bool:
    return isinstance(document, dict) and "train" in document and all(map(_are_records, document.values()))


def _are_records(value: Any) -> bool:
    """Whether it is a list of records; pairs are lists of two entries that are no lists."""
    if not isinstance(value, list) or not value:
        return False
    return all(isinstance(one, dict) for one in value) or all(_is_pair(one) for one in value)


def _is_pair(value: Any) -> bool:
    return isinstance(value, list) and len(value) == len(PAIR) and isinstance(value[0], str)


def _are_columns(document: Mapping[str, Any]) -> bool:
    """Whether entries are lists of equal length, with texts or numbers in them."""
    lists = list(document.values())
    if not lists or not all(isinstance(value, list) and value for value in lists):
        return False
    return len({len(value) for value in lists}) == 1 and not any(_is_nested(one[0]) for one in lists)


def _is_nested(value: Any) -> bool:
    return isinstance(value, dict | list)


def _check_record(record: Any) -> Record:
    if isinstance(record, dict) or _is_pair(record):
        found: Record = record
        return found
    raise ValueError('not a record. Write {"column": value, …}.')


def _to_columns(records: Iterable[Record]) -> dict[str, list[str | None]]:
    columns: dict[str, list[str | None]] = {}
    for number, record in enumerate(records):
        row = record if isinstance(record, Mapping) else dict(zip(PAIR, record, strict=True))
        for name in row:
            if name not in columns:
                columns[name] = [None] * number
        for name, entries in columns.items():
            entries.append(_as_text(row.get(name)))
    return columns


def _as_text(value: object) -> str | None:
    return value if value is None or isinstance(value, str) else json.dumps(value, ensure_ascii=False)
