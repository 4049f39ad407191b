"""The course of a trial: how far it is and what it reached, read from its run folder."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from unspool.learning.run_folder import METRICS

State = Literal["running", "finished", "pruned", "failed", "stopped"]


@dataclass(frozen=True)
class Course:
    """What the log of a run says so far.

    Attributes:
        evaluated: The evaluations, as `metrics.jsonl` has them.
        finished: How training ended; empty where it did not, or where it was interrupted.
        fraction: How much of the planned training is done.
        seconds: Of training.
    """

    evaluated: tuple[Mapping[str, Any], ...] = ()
    finished: Mapping[str, Any] = field(default_factory=dict)
    fraction: float = 0.0
    seconds: float = 0.0

    def curve(self, metric: str) -> tuple[float, ...]:
        """The metric of each evaluation."""
        return tuple(float(one["validation"][metric]) for one in self.evaluated)


def read_course(run: Path) -> Course:
    """The course of the run in a folder; an empty one where there is no run yet."""
    try:
        text = (run / METRICS).read_text(encoding="utf-8")
    except FileNotFoundError:
        return Course()
    # The last line may still be in writing.
    events = [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]
    return course_of(events)


def course_of(events: list[dict[str, Any]]) -> Course:
    """The course that the events of a run make."""
    evaluated = tuple(one for one in events if one["event"] == "evaluated")
    moved = [one for one in events if "fraction" in one]
    last = events[-1] if events else {}
    ended = last.get("event") == "finished" and last["reason"] != "interrupted"
    return Course(
        evaluated,
        last if ended else {},
        1.0 if ended else min(1.0, moved[-1]["fraction"]) if moved else 0.0,
        max((one.get("seconds") or 0.0 for one in events), default=0.0),
    )


@dataclass(frozen=True)
class Row:
    """One trial of a sweep, as tables and the page show it.

    Attributes:
        number: From 0 on.
        state: `running`, `finished`, `pruned` (ended early, as others were better), `failed`, or `stopped` (it can be
            resumed).
        settings: The values of the settings that are searched.
        folder: Its run folder.
        course: How far it is.
        value: The metric that the sweep is about, on validation data: of the best model, or the best so far.
        problem: Why it failed.
    """

    number: int
    state: State
    settings: Mapping[str, Any]
    folder: Path
    course: Course = field(default_factory=Course, repr=False)
    value: float | None = None
    problem: str = ""

    @property
    def validation(self) -> Mapping[str, float]:
        """All metrics of the best model on validation data; empty before the end."""
        found: Mapping[str, float] = self.course.finished.get("validation", {})
        return found

    @property
    def test(self) -> Mapping[str, float]:
        """All metrics of the best model on test data; empty where there is none."""
        found: Mapping[str, float] = self.course.finished.get("test", {})
        return found

    def as_json(self) -> dict[str, Any]:
        """The trial for programs."""
        known = {"trial": self.number, "state": self.state, "settings": dict(self.settings), "value": self.value}
        ended = {"validation": dict(self.validation), "test": dict(self.test), "problem": self.problem}
        return {**known, "seconds": round(self.course.seconds, 3), **ended, "run": str(self.folder)}


@dataclass(frozen=True)
class Goal:
    """The metric by which trials are compared, and whether more of it is better."""

    metric: str
    more_is_better: bool

    def best_of(self, values: tuple[float, ...]) -> float | None:
        """The best value; None where there is none."""
        return (max if self.more_is_better else min)(values, default=None)

    def rank(self, row: Row) -> tuple[float, float, int]:
        """What the best trial has least of; where the metric is the same the lower loss counts, then the number."""
        value = row.value if row.value is not None else 0.0
        return (-value if self.more_is_better else value), row.validation.get("loss", 0.0), row.number

    def find_best(self, rows: list[Row]) -> Row | None:
        """The best of the finished trials; where none is finished, the best of those that were evaluated."""
        valued = [row for row in rows if row.value is not None]
        finished = [row for row in valued if row.state == "finished"]
        return min(finished or valued, key=self.rank, default=None)
