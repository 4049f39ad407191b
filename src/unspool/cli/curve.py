"""Curves in braille characters: a cell of the terminal holds two columns of four dots."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence

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
    lowest, highest = _ends(values)
    low, high = lowest if low is None else low, highest if high is None else high
    for column, levels in enumerate(_draw_line(_resample(values, 2 * width), low, high, 4 * height)):
        for filled in levels:
            row, within = divmod(4 * height - 1 - filled, 4)
            dots[row][column // 2] |= DOTS[column % 2][within]
    return ["".join(map(_braille, row)) for row in dots]


def _draw_line(values: Iterable[float], low: float, high: float, levels: int) -> Iterator[Iterable[int]]:
    """The levels that each column fills, so that the line is connected; none where there is a gap."""
    previous: int | None = None
    for value in values:
        if math.isfinite(value):
            level = _level(value, low, high, levels)
            yield _between(previous, level)
            previous = level
        else:
            yield ()
            previous = None


def _braille(dots: int) -> str:
    return chr(BLANK + dots) if dots else " "


def _between(previous: int | None, level: int) -> range:
    """The dots of a column, so that a steep line stays a line: those between the last column's level and this one's."""
    if previous is None or previous == level:
        return range(level, level + 1)
    return range(previous + 1, level + 1) if level > previous else range(level, previous)


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
    marks = [(place, value) for place, value in marks if math.isfinite(value)]
    shown = [*_finite(values), *(value for _, value in marks), *levels.values()]
    low, high = _ends(shown)
    axis = _axis(shown, height)
    room = max(map(len, axis))
    names = _name_rows(levels, low, high, height)
    plot, beside = _divide(width - room - 2, names)
    lines = sparkline(values, plot, height, low, high)
    _draw_levels(lines, levels.values(), low, high)
    _draw_marks(lines, marks, low, high)
    ticks = [f"{label:>{room}} {'┤' if label else '│'}" for label in axis]
    return list(map("".join, zip(ticks, lines, _sides(names, beside), strict=True)))


def _draw_marks(lines: list[str], marks: Iterable[tuple[float, float]], low: float, high: float) -> None:
    for place, value in marks:
        row = _row(value, low, high, len(lines))
        lines[row] = _with_mark(lines[row], place)


def _draw_levels(lines: list[str], levels: Iterable[float], low: float, high: float) -> None:
    """Mark the rows of levels where the line leaves them free."""
    for level in levels:
        row = _row(level, low, high, len(lines))
        lines[row] = lines[row].replace(" ", LEVEL)


def _sides(names: Sequence[str], width: int) -> list[str]:
    """What follows each line: a space and a name, cut to the width; nothing, if there is no room for names."""
    return [f" {set_cell_size(name, width)}" if width else "" for name in names]


def _axis(shown: Sequence[float], height: int) -> list[str]:
    """What stands before each line: the greatest number, and below it the least; nothing where there is no room."""
    if height < 2 or not shown:
        return [""] * height
    low, high = _ends(shown)
    return [f"{high:.3g}", *[""] * (height - 2), f"{low:.3g}"]


def _divide(width: int, names: Sequence[str]) -> tuple[int, int]:
    """The widths of the plot and of the names beside it; without names, where the plot would be too narrow."""
    beside = min(max(map(cell_len, names), default=0), LONGEST_NAME)
    plot = width - (beside + 1 if beside else 0)
    return (plot, beside) if plot >= NARROWEST else (max(width, 1), 0)


def _ends(values: Sequence[float]) -> tuple[float, float]:
    """The least and the greatest of those that are finite; zeros, if none is."""
    finite = _finite(values)
    return min(finite, default=0.0), max(finite, default=0.0)


def _finite(values: Sequence[float]) -> list[float]:
    return [value for value in values if math.isfinite(value)]


def _with_mark(line: str, place: float) -> str:
    """A line with a mark at a place from 0, left, to 1, right."""
    column = int(min(max(place, 0.0), 1.0) * (len(line) - 1) + 0.5)
    return line[:column] + MARK + line[column + 1 :]


def _resample(values: Sequence[float], columns: int) -> list[float]:
    """One value a column; a single value stays one."""
    count = len(values)
    if count < 2:
        return list(values)
    if count > columns:
        bins = (values[column * count // columns : (column + 1) * count // columns] for column in range(columns))
        return [_mean(_finite(several)) for several in bins]
    places = (divmod(column * (count - 1), columns - 1) for column in range(columns))
    return [
        _interpolate(values[index], values[min(index + 1, count - 1)], rest / (columns - 1)) for index, rest in places
    ]


def _interpolate(here: float, there: float, share: float) -> float:
    """The value on the line between two; the nearer one if the other is not finite."""
    if math.isfinite(here) and math.isfinite(there):
        return here + share * (there - here)
    return here if share < 0.5 else there


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
