"""A sweep in words: numbers and settings as people read them, and lines for Python and notebooks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from unspool.harmless import harmless
from unspool.sweeps.course import Row
from unspool.sweeps.searching import Snapshot, Told


def silent(told: Told) -> None:
    """A listener that ignores everything."""


def print_progress(told: Told) -> None:
    """A listener that prints a line at the start, for each trial that ends, and at the end."""
    if line := describe(told):
        print(harmless(line), flush=True)


def describe(told: Told) -> str:
    """One line about what has happened; empty where it is not worth one."""
    if told.kind == "began":
        return describe_start(told.sweep)
    if told.kind == "trial" and told.row is not None and told.row.state != "running":
        return describe_row(told.row, told.sweep.goal.metric)
    return describe_end(told.sweep) if told.kind == "ended" else ""


def describe_start(sweep: Snapshot) -> str:
    """What is searched."""
    searched = ", ".join(f"{name} {space.describe()}" for name, space in sweep.spaces.items())
    before = f", {len(sweep.rows)} of them begun before" if sweep.rows else ""
    return f"{sweep.path}: {sweep.task}, {sweep.trials} trials{before}; {searched}"


def describe_row(row: Row, metric: str) -> str:
    """A trial that has ended."""
    value = f", {metric} {show_number(row.value)}" if row.value is not None else ""
    why = f": {row.problem}" if row.problem else ""
    return f"trial {row.number}: {row.state}{value}, {row.course.seconds:.1f} s ({show_settings(row.settings)}){why}"


def describe_end(sweep: Snapshot) -> str:
    """How a sweep ended, and what to do next."""
    counts = count_states(sweep)
    best = sweep.best
    if best is None:
        return f"{counts}; no trial was evaluated"
    found = f"best: trial {best.number}, {show_metrics(best, sweep)} ({show_settings(best.settings)})"
    return f"{counts}; {found}; in {sweep.path / 'best'}"


def count_states(sweep: Snapshot) -> str:
    """Such as `20 finished, 4 pruned of 24 trials`."""
    states = ("finished", "pruned", "failed", "stopped", "running")
    counts = [f"{count} {state}" for state in states if (count := sum(row.state == state for row in sweep.rows))]
    return f"{', '.join(counts) or 'none begun'} of {sweep.trials} trials"


def show_metrics(row: Row, sweep: Snapshot) -> str:
    """The metric on validation data, and on test data, where there is some."""
    metric = sweep.goal.metric
    test = f", on test data {show_number(row.test[metric])}" if metric in row.test else ""
    return f"{metric} {show_number(row.value)}{test}"


def show_settings(settings: Mapping[str, Any]) -> str:
    """Such as `lr 0.004, hidden 128`."""
    return ", ".join(f"{name} {show_value(value)}" for name, value in settings.items())


def show_value(value: Any) -> str:
    """The value of a setting."""
    if value is None:
        return "default"
    if isinstance(value, bool):
        return "on" if value else "off"
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def show_number(value: float | None) -> str:
    """A metric, with four digits."""
    return "–" if value is None else f"{value:.4g}"
