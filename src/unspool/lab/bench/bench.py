"""Run questions one by one into a report."""

from __future__ import annotations

import datetime
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

import torch

from unspool.engine import enabled
from unspool.errors import UnknownNameError
from unspool.lab.bench import (
    elementwise,
    exported,
    grid,
    linear,
    matrix,
    memory,
    overhead,
    ragged,
    stream,
    tracing,
    user,
    wavefront,
    whole_model,
)
from unspool.lab.bench.machine import MatrixProduct, describe
from unspool.lab.bench.report import Finding, Report, Row
from unspool.lab.bench.settings import Say, Settings
from unspool.nn.entry import ENTRY

#: The part of the cores that a run needs for itself.
QUIET = 0.9


@dataclass(frozen=True)
class Question:
    """What is asked, how it is measured, and what follows from the rows."""

    text: str
    measure: Callable[[Settings, Say], Iterator[Row]]
    judge: Callable[[Iterable[Row]], list[Finding]]


QUESTIONS: Mapping[str, Question] = {
    "grid": Question("training and inference at 18 points, against other libraries", grid.measure, grid.judge),
    "overhead": Question("what a call costs", overhead.measure, overhead.judge),
    "user": Question("a user's cell, against the built-in and a torch loop", user.measure, user.judge),
    "elementwise": Question(
        "a recurrence without a product with the state, against scans", elementwise.measure, elementwise.judge
    ),
    "matrix": Question("cells with matrices as states, against loops over time", matrix.measure, matrix.judge),
    "wavefront": Question("layers of a stack at once, against one after the other", wavefront.measure, wavefront.judge),
    "ragged": Question("ragged batches, against full ones and torch's packed ones", ragged.measure, ragged.judge),
    "model": Question("whole models: an update from tokens to new weights", whole_model.measure, whole_model.judge),
    "memory": Question("the peak of memory in training", memory.measure, memory.judge),
    "linear": Question("cost over the number of steps", linear.measure, linear.judge),
    "trace": Question("what it costs to see every named value", tracing.measure, tracing.judge),
    "stream": Question("one step at a time from Python, at batch 1", stream.measure, stream.judge),
    "export": Question("an exported layer in C, without Python", exported.measure, exported.judge),
}


def run(only: Sequence[str] = (), settings: Settings | None = None, say: Say = lambda _: None) -> Report:
    """Measure the questions named in `only`, or all. `say` is told what happens; remarks begin with "!"."""
    for name in only:
        if name not in QUESTIONS:
            raise UnknownNameError.among("only", name, QUESTIONS)
    settings = settings or Settings()
    started = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    report = Report(describe() | {"started": started}, asdict(settings))
    hear = partial(_hear, report, say)
    threads = torch.get_num_threads()
    torch.set_num_threads(settings.threads)
    try:
        watch = MatrixProduct()
        if not enabled():
            hear("! UNSPOOL_ENGINE=off: unspool runs eagerly, without kernels")
        elif why := ENTRY.prepare():
            hear(f"! small calls go through Python: {why}")
        for name in only or QUESTIONS:
            watch(3)
            _answer(QUESTIONS[name], settings, report, hear)
        watch(3)
        if (share := watch.share(settings.threads)) < QUIET:
            hear(f"! others used the cores: a matrix product had {share:.0%} of them. The numbers of this run mislead")
    finally:
        torch.set_num_threads(threads)
    return report


def _hear(report: Report, say: Say, text: str) -> None:
    """Pass on what happens; a remark is kept in the report, and said once."""
    if text.startswith("! "):
        if text[2:] in report.remarks:
            return
        report.remarks.append(text[2:])
    say(text)


def _answer(question: Any, settings: Settings, report: Report, hear: Say) -> None:
    rows = _measure(question, settings, hear)
    report.rows += rows
    findings = question.judge(rows)
    # the aims are for the questions' own sizes
    report.findings += [replace(found, aim=None) for found in findings] if settings.points else findings


def _measure(question: Question, settings: Settings, say: Say) -> list[Row]:
    """The rows of a question; what warns on the way, such as that a cell runs eagerly, becomes a remark."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        rows = list(question.measure(settings, say))
    for warning in caught:
        if issubclass(warning.category, RuntimeWarning):
            say(f"! {str(warning.message).partition(chr(10))[0]}")
    return rows
