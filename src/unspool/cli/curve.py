"""Curves in braille characters: a cell of the terminal holds two columns of four dots."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from rich.cells import cell_len, set_cell_size

#: The bit of each dot in a braille character: [column][row from the top]; the characters begin at BLANK.
DOTS = ((0x01, 0x02, 0x04, 0x40), (0x08, 0x10, 0x20, 0x80))
BLANK = 0x2800

MARK = "●"
LEVEL = "┄"
#: The least width of a plot that still shows something, and the most that names beside it may take.
NARROWEST = 16
LONGEST_NAME = 26


def sparkline(
    values: Sequence[float], width: int, height: int, low: float | None = None, high: float | None = None
) -> list[str]:
    """`height` lines of `width` characters: the values at equal distances from left to right, the largest on top.

    Where there are more values than columns a column shows a mean; where there are fewer the line between two is
    straight. What is not finite is a gap. `low` and `high` are the values at the bottom and the top, where they are not
    to be the values' own; what lies outside is drawn at the edge.
    """
    if width < 1 or height < 1:
        return [""] * max(height, 0)
    dots = [[0] * width for _ in range(height)]
    finite = [value for value in values if math.isfinite(value)]
    low = min(finite, default=0.0) if low is None else low
    high = max(finite, default=0.0) if high is None else high
    previous: int | None = None
    for column, value in enumerate(_resample(values, 2 * width)):
        if not math.isfinite(value):
            previous = None
            continue
        level = _level(value, low, high, 4 * height)
        # A steep line stays a line: the dots between the columns' levels are this column's.
        start = level if previous is None or previous == level else previous + (1 if level > previous else -1)
        for filled in range(min(start, level), max(start, level) + 1):
            row, within = divmod(4 * height - 1 - filled, 4)
            dots[row][column // 2] |= DOTS[column % 2][within]
        previous = level
    return ["".join(chr(BLANK + cell) if cell else " " for cell in row) for row in dots]


def chart(
    values: Sequence[float],
    marks: Sequence[tuple[float, float]],
    levels: Mapping[str, float],
    width: int,
    height: int,
) -> list[str]:
    """A sparkline with an axis, marks on it and named levels beside it, all on one scale.

    `marks` are places (0 left, 1 right) with their values. Of more levels than lines the lowest are named.
    """
    levels = {name: level for name, level in levels.items() if math.isfinite(level)}
    all_values = [*values, *(value for _, value in marks), *levels.values()]
    finite = [value for value in all_values if math.isfinite(value)]
    low, high = min(finite, default=0.0), max(finite, default=0.0)
    axis = [f"{high:.3g}", *[""] * (height - 2), f"{low:.3g}"] if height > 1 and finite else [""] * height
    room = max(map(len, axis))
    names = _name_rows(levels, low, high, height)
    beside = min(max(map(cell_len, names), default=0), LONGEST_NAME)
    plot = width - room - 2 - (beside + 1 if beside else 0)
    if plot < NARROWEST:
        plot, beside = max(width - room - 2, 1), 0
    lines = [list(line) for line in sparkline(values, plot, height, low, high)]
    for level in levels.values():
        row = _row(level, low, high, height)
        lines[row] = [LEVEL if character == " " else character for character in lines[row]]
    for place, value in marks:
        if math.isfinite(value):
            column = int(min(max(place, 0.0), 1.0) * (plot - 1) + 0.5)
            lines[_row(value, low, high, height)][column] = MARK
    return [
        f"{label:>{room}} {'┤' if label else '│'}{''.join(line)}"
        + (f" {set_cell_size(name, beside)}" if beside else "")
        for label, line, name in zip(axis, lines, names, strict=True)
    ]


def _resample(values: Sequence[float], columns: int) -> list[float]:
    """One value a column; a single value stays one."""
    count = len(values)
    if count < 2:
        return list(values)
    if count > columns:
        bins = (values[column * count // columns : (column + 1) * count // columns] for column in range(columns))
        return [_mean([value for value in several if math.isfinite(value)]) for several in bins]
    result = []
    for column in range(columns):
        index, rest = divmod(column * (count - 1), columns - 1)
        share = rest / (columns - 1)
        here, there = values[index], values[min(index + 1, count - 1)]
        if math.isfinite(here) and math.isfinite(there):
            result.append(here + share * (there - here))
        else:
            result.append(here if share < 0.5 else there)
    return result


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else math.nan


def _level(value: float, low: float, high: float, levels: int) -> int:
    """The dot, from 0 at the bottom, at which a value lies; the middle if all are the same."""
    if not high > low:
        return (levels - 1) // 2
    share = min(max((value - low) / (high - low), 0.0), 1.0)
    return int(share * (levels - 1) + 0.5)


def _row(value: float, low: float, high: float, height: int) -> int:
    """The line, from 0 at the top, in which a value lies."""
    return (4 * height - 1 - _level(value, low, high, 4 * height)) // 4


def _name_rows(levels: Mapping[str, float], low: float, high: float, height: int) -> list[str]:
    """What stands beside each line: a level's name at its place, or as near below it as the names before it let."""
    rows = [""] * height
    kept = sorted(levels.items(), key=lambda item: -item[1])[-height:] if height else []
    free = 0
    for index, (name, level) in enumerate(kept):
        row = min(max(_row(level, low, high, height), free), height - (len(kept) - index))
        rows[row] = f"{name} {level:.3f}"
        free = row + 1
    return rows
