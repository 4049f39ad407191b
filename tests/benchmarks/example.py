"""A report with round numbers."""

from __future__ import annotations

from unspool.lab.bench.report import Report, Row, compare
from unspool.lab.bench.timing import Spread

MACHINE = {
    "processor": "P",
    "instructions": "avx2",
    "cores": 2,
    "system": "Linux x86_64",
    "python": "3.11",
    "versions": {"torch": "2.13.0"},
    "started": "2026-01-01T00:00:00+00:00",
}
SETTINGS = {"threads": 2, "rounds": 3}


def row(case: str, kind: str = "training", **medians: float) -> Row:
    values = {name: Spread(median, 0.9 * median, 1.2 * median, 3) for name, median in medians.items()}
    return Row("grid", kind, case, values, operations=8e9, machine_rate=1e10)


def report() -> Report:
    rows = [
        row("A", unspool=1.0, torch=4.0, jax=2.0),
        row("B", unspool=2.0, torch=1.0),
        row("C", "inference", unspool=3),
    ]
    found = compare(rows[:2], ("torch", "jax"), "text", 2.0, 0.5)
    return Report(MACHINE, SETTINGS, rows, found, ["jax takes no part"])
