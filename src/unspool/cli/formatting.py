"""Numbers as people read them, and lines of them that fit."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import zip_longest

from rich.cells import cell_len

#: Between the columns of a table.
GAP = "  "


def duration(seconds: float) -> str:
    """0:48, 1:12:00, 2 d 3:00:00; a question mark if it is unknown."""
    if not math.isfinite(seconds):
        return "?"
    minutes, second = divmod(round(max(seconds, 0)), 60)
    hours, minute = divmod(minutes, 60)
    days, hour = divmod(hours, 24)
    if not hours:
        return f"{minute}:{second:02}"
    return (f"{days} d " if days else "") + f"{hour}:{minute:02}:{second:02}"


def decimal(value: float | None) -> str:
    """Three decimals; three digits where those would be zeros or too many."""
    if value is None or not math.isfinite(value):
        return not_finite(value)
    return f"{value:.3f}" if value == 0 or 0.01 <= abs(value) < 1e5 else f"{value:.3g}"


def short(value: float) -> str:
    """Three digits."""
    return f"{value:.3g}" if math.isfinite(value) else not_finite(value)


def percent(value: float) -> str:
    """A percentage."""
    return f"{value:.0%}" if math.isfinite(value) else not_finite(value)


def speed(value: float, unit: str) -> str:
    """24,310 characters/s."""
    number = not_finite(value) if not math.isfinite(value) else f"{value:,.0f}" if value >= 10 else f"{value:.1f}"
    return f"{number} {unit}/s"


def not_finite(value: float | None) -> str:
    """NaN, infinity, or a dash for a missing value."""
    if value is None:
        return "–"
    return "NaN" if math.isnan(value) else "∞" if value > 0 else "−∞"


def metric(name: str, value: float | None) -> str:
    """A metric as people read it: a perplexity is 6.69 or 12,345, and a number of examples has no decimals."""
    if value is None or not math.isfinite(value):
        return not_finite(value)
    if isinstance(value, int):
        return f"{value:,}"
    if name != "perplexity":
        return decimal(value)
    return f"{value:.2f}" if value < 1000 else f"{value:,.0f}" if value < 1e7 else f"{value:.3g}"


def other_metrics(several: Iterable[Mapping[str, float]]) -> list[str]:
    """The names of metrics other than the loss, in the order in which they first occur."""
    names = dict.fromkeys(name for metrics in several for name in metrics)
    return [name for name in names if name != "loss"]


def align(rows: Sequence[Sequence[str]], left: int = 0) -> list[str]:
    """One line per row: `left` columns aligned left, the others right, by the cells that characters take."""
    widths = [max(map(cell_len, column)) for column in zip_longest(*rows, fillvalue="")]
    lines = []
    for row in rows:
        spaces = [" " * (width - cell_len(cell)) for cell, width in zip(row, widths, strict=False)]
        cells = [
            cell + space if index < left else space + cell
            for index, (cell, space) in enumerate(zip(row, spaces, strict=True))
        ]
        lines.append(GAP.join(cells).rstrip())
    return lines


def flow(pieces: Iterable[str], width: int, between: str = " · ") -> list[str]:
    """The pieces in lines of at most this width; a piece is never broken."""
    lines: list[str] = []
    for piece in pieces:
        if lines and cell_len(lines[-1]) + cell_len(between) + cell_len(piece) <= width:
            lines[-1] += between + piece
        else:
            lines.append(piece)
    return lines
