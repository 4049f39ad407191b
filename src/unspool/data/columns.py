"""Columns by name: which names say what a column holds, and the column that is meant where the user names none."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from unspool.data.tables import Table
from unspool.errors import DataError

# Names in lower case; of several that a table has, the first in the list counts.
TEXT_NAMES = (
    *("text", "sentence", "utterance", "query", "content", "document", "comment", "review", "smiles", "sequence"),
    *("tweet", "message", "headline", "title", "body", "question", "description", "name"),
)
LABEL_NAMES = (
    *("label", "class", "intent", "category", "target", "sentiment", "tag", "y", "labels", "type", "species"),
    *("language", "topic", "genre", "emotion", "gender"),
)
#: Names of columns that hold several labels per row.
LABEL_SET_NAMES = ("labels", "categories", "topics", "genres", "classes", "intents", "tags")
NUMBER_NAMES = ("target", "y", "value", "score", "rating", "label")
TIME_NAMES = ("time", "date", "datetime", "timestamp", "ds", "ts", "year", "month", "week", "day", "hour")
SERIES_NAMES = ("value", "target", "y", "close", "adj close")
#: Words in the names of columns that hold times, and in those of ids and indices.
TIME_WORDS = {
    *("time", "date", "datetime", "timestamp", "ds", "ts", "dt", "t", "step", "tick", "epoch", "unix", "unixtime"),
    *("year", "quarter", "month", "week", "day", "hour", "minute", "second", "period", "datum", "zeit"),
}
#: Words in the names of columns whose numbers stand for kinds, such as a day of the week, and are no measurements.
CODE_WORDS = {
    *("weekday", "dow", "dayofweek", "weekend", "workday", "workingday", "holiday", "season", "promo", "promotion"),
    *(
        "event",
        "is",
        "has",
        "flag",
        "type",
        "class",
        "category",
        "kind",
        "code",
        "status",
        "group",
        "cluster",
        "regime",
    ),
}
ID_WORDS = {"id", "ids", "uid", "uuid", "guid", "key", "index", "idx", "rownames", "row", "series"}
#: Of the texts to read and those to write; without a header, columns are numbered.
SOURCE_NAMES = ("source", "src", "input", "1")
TRANSLATION_NAMES = ("target", "tgt", "output", "2")


def split_name(column: str) -> list[str]:
    """The words of a column's name, in lower case and without units in brackets.

    Example:
        split_name("dateTime_GMT"), split_name("Temp (°C)")  # ["date", "time", "gmt"], ["temp"]
    """
    plain = re.sub(r"[(\[].*?[)\]]", " ", column)
    apart = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", plain)
    return re.findall(r"[^\W_]+", apart.lower())


def is_code(column: str) -> bool:
    """Whether a name is one of kinds, or of nothing but a time, such as `hour` or `day of week`.

    Example:
        is_code("is_holiday"), is_code("day_of_week"), is_code("sales_per_day")  # True, True, False
    """
    words = {*split_name(column)}
    return bool(CODE_WORDS & words) or (bool(words) and words <= {*TIME_WORDS, "of", "in"})


def find_column(columns: Iterable[str], names: Sequence[str]) -> str | None:
    """The column with one of these names, in any case; None if there is none.

    Example:
        find_column(["Date", "sales"], TIME_NAMES)  # "Date"
    """
    by_name = {column.lower(): column for column in columns}
    return next((by_name[name] for name in names if name in by_name), None)


def guess_column(table: Table, names: Sequence[str], what: str, setting: str, taken: Sequence[str] = ()) -> str:
    """The column of a well-known name, or the only one that is left.

    Args:
        table: The table.
        names: Well-known names, in lower case.
        what: What the column holds, for the error message.
        setting: The setting that names it, for the error message.
        taken: Columns that hold something else.

    Returns:
        The column's name as the table has it.

    Raises:
        DataError: Several columns are left, and none has a well-known name.
    """
    free = [column for column in table.columns if column not in taken]
    found = find_column(free, names)
    if found is None and len(free) == 1:
        found = free[0]
    if found is None:
        raise DataError(
            f"{table.files[0]} has the columns {', '.join(map(repr, table.columns))}: which has {what} is not clear. "
            f"Name it with `{setting}`."
        )
    return found
