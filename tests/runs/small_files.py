"""Writers of small files as people name and shape them, and what a person would take such a file for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import numpy as np

BEGIN = datetime(2023, 1, 1)
WORDS = [
    "the",
    "a",
    "small",
    "big",
    "red",
    "old",
    "dog",
    "cat",
    "house",
    "tree",
    "sees",
    "likes",
    "finds",
    "near",
    "under",
    "over",
    "not",
    "very",
]


class Case(NamedTuple):
    """A file, the task, and settings that the guess must have; or the error."""

    file: str
    content: Callable[[], str]
    task: str | None
    settings: dict[str, Any]
    error: str = ""


def series(steps: int, season: int = 12, seed: int = 0, level: float = 20) -> list[float]:
    chance = np.random.default_rng(seed)
    wave = level + 5 * np.sin(2 * np.pi * np.arange(steps) / season) + chance.normal(size=steps)
    return [round(float(value), 2) for value in wave]


def months(count: int) -> list[str]:
    return [f"{2000 + month // 12}-{month % 12 + 1:02}" for month in range(count)]


def stamps(count: int, form: str = "%Y-%m-%d", **step: float) -> list[str]:
    return [(BEGIN + number * timedelta(**(step or {"days": 1}))).strftime(form) for number in range(count)]


def table(header: str, *columns: list[Any], between: str = ",") -> str:
    rows = zip(*columns, strict=True)
    return header + "\n" + "".join(between.join(map(str, row)) + "\n" for row in rows)


def sentences(count: int, seed: int = 0) -> list[str]:
    chance = np.random.default_rng(seed)
    return [" ".join(chance.choice(WORDS, 7)) + f" {number}" for number in range(count)]


def cycle(count: int, *entries: Any) -> list[Any]:
    return [entries[number % len(entries)] for number in range(count)]


def conll() -> str:
    return "Anna B-PER\nlives O\nin O\nNew B-LOC\nYork I-LOC\n\nBob B-PER\nsleeps O\n\n" * 6


def long_table(header: str, ids: list[Any], count: int, times: list[Any]) -> str:
    rows = [
        (one, time, value)
        for place, one in enumerate(ids)
        for time, value in zip(times, series(count, 7, place), strict=True)
    ]
    return table(header, *map(list, zip(*rows, strict=True)))


def wide(header: Sequence[Any]) -> str:
    """Three series of different lengths, one per row."""
    rows = [[f"Y{n}", *series(40 - 5 * n, seed=n), *[""] * (5 * n)] for n in range(3)]
    return "".join(",".join(map(str, row)) + "\n" for row in [header, *rows])


def unix(count: int, seconds: int, unit: int = 1) -> list[int]:
    first = int(datetime(2023, 1, 1, tzinfo=UTC).timestamp())
    return [(first + number * seconds) * unit for number in range(count)]


def european(value: float) -> str:
    return f"{value:.2f}".replace(".", ",")


def ohlcv() -> str:
    close = series(120, 7)
    numbers = [[round(value + offset, 2) for value in close] for offset in (-0.1, 0.5, -0.5)]
    volume = [1000 + int(10 * value) for value in close]
    return table("Date,Open,High,Low,Close,Volume", stamps(120), *numbers, close, volume)


def gestures() -> str:
    rows = [(one, step, 0.1 * step * one, "left" if one % 2 else "right") for one in range(20) for step in range(6)]
    return table(
        "recording_id,t,x,gesture_label".replace("gesture_label", "label"), *map(list, zip(*rows, strict=True))
    )


SMILES = ["C" * n + "O" for n in range(1, 31)]
DNA = ["".join(np.random.default_rng(n).choice(list("ACGT"), 30)) for n in range(30)]


def of_series(file: str, content: Callable[[], str], time: str, *targets: str, series: str | None = None) -> Case:
    """A file of series, with its columns."""
    settings = {"time_column": time, "target": targets, **({"series_column": series} if series else {})}
    return Case(file, content, "forecast", settings)


def of_panel(file: str, header: str, ids: list[Any], times: list[Any]) -> Case:
    """A file of several series below each other, whose columns are their ids, the times and the values."""
    ids_column, time, target = header.split(",")
    return of_series(file, lambda: long_table(header, ids, len(times), times), time, target, series=ids_column)


def unclear(file: str, content: Callable[[], str], error: str) -> Case:
    """A file of which a person would ask what it is for."""
    return Case(file, content, None, {}, error)
