"""Sets of labels: several in one cell of a table, or one column of 0 and 1 for each."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterable, Sequence

from unspool.errors import DataError

#: What separates labels within a cell, the most telling first.
SEPARATORS = ("|", ";", ",")
#: Words for yes and no in a column of its own.
YES, NO = ("1", "1.0", "true", "yes", "t", "y"), ("0", "0.0", "false", "no", "f", "n", "")
LIST = re.compile(r"\s*\[.*\]\s*", re.DOTALL)


def guess_separator(cells: Sequence[str]) -> str:
    """What separates labels: the first separator that splits cells into labels that other cells have too.

    A comma inside a label, as in "Paris, France", makes labels that stand nowhere else.
    """
    for separator in SEPARATORS:
        if _repeats(cells, separator):
            return separator
    return SEPARATORS[0]


def holds_sets(cells: Sequence[str]) -> bool:
    """Whether cells hold sets of labels: lists, or labels with a separator between them."""
    filled = [cell for cell in cells if cell.strip()]
    if filled and all(LIST.fullmatch(cell) for cell in filled):
        return True
    return any(_repeats(filled, separator) for separator in SEPARATORS)


def _repeats(cells: Sequence[str], separator: str) -> bool:
    """Whether at least two cells have several labels, and most of these labels occur in other cells too."""
    several = [split_labels(cell, separator) for cell in cells if separator in cell]
    if len(several) < 2:
        return False
    counts = Counter(label for cell in cells for label in split_labels(cell, separator))
    labels = {label for own in several for label in own}
    return _count_repeated(labels, counts) > len(labels) / 2


def _count_repeated(labels: Iterable[str], counts: Counter[str]) -> int:
    return sum(counts[label] > 1 for label in labels)


def split_labels(cell: str, separator: str) -> tuple[str, ...]:
    """The labels in a cell, each once: `a|b`, or a list as JSON and Python write it.

    Example:
        split_labels("sports|news", "|")  # ("sports", "news")
    """
    found = _read_list(cell) if LIST.fullmatch(cell) else cell.split(separator)
    return tuple(dict.fromkeys(label for one in found if (label := one.strip())))


def _read_list(cell: str) -> list[str]:
    try:
        return [str(one) for one in ast.literal_eval(cell.strip())]
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return cell.strip()[1:-1].replace("'", "").replace('"', "").split(",")


def read_flag(cell: str, place: str, column: str) -> bool:
    """Whether an example has the label of a column of 0 and 1."""
    word = cell.strip().lower()
    if word in YES:
        return True
    if word in NO:
        return False
    raise DataError(f"{place}: `{column}` is {cell!r}. Give 0 or 1 where each label has a column of its own.")
