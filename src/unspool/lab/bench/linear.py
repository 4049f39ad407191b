"""Cost over time: does twice the steps take twice the seconds, from 100 steps to 20,000?"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from unspool.lab.bench.cases import Case, Point
from unspool.lab.bench.contestants import modules
from unspool.lab.bench.report import OURS, Finding, Row
from unspool.lab.bench.settings import Say, Settings
from unspool.lab.bench.timing import Call, interleave

STEPS = (100, 200, 500, 1000, 2000, 5000, 10_000, 20_000)
POINTS = tuple(Point(8, T, 32, 64) for T in STEPS)


def measure(settings: Settings, say: Say) -> Iterator[Row]:
    for point in settings.points or POINTS:
        case = Case("lstm", point)
        say(f"linear: {case}")
        makers = {OURS: modules.unspool} | ({"torch": modules.torch_nn} if "torch" in settings.against else {})
        contestants = {name: make(case, settings.threads) for name, make in makers.items()}
        calls: dict[str, Call] = {name: one.train for name, one in contestants.items() if one.train}
        yield Row("linear", "training", str(case), interleave(calls, settings.rounds), operations=case.operations(True))


def judge(rows: Iterable[Row]) -> list[Finding]:
    rows = list(rows)
    T = np.array([Point.parse(row.case.split()[1]).T for row in rows], float)
    if len(set(T)) < 3:
        return []
    seconds = np.array([row.values[OURS].median for row in rows])
    a, b = fit_line(T, seconds)
    off = np.abs(a + b * T - seconds) / seconds
    worst = rows[int(off.argmax())].case
    return [
        Finding("linear", "exponent of the time in T (log–log fit)", fit_exponent(T, seconds), "", 1.05, False),
        Finding("linear", "a step of training costs", b, "s"),
        Finding("linear", "largest distance from the line a + b·T", 100 * off.max(), "%", where=worst),
    ]


def fit_line(T: np.ndarray, seconds: np.ndarray) -> tuple[float, float]:
    """a and b of a + b·T with the least sum of squared relative errors, so that short runs count as much as long."""
    design = np.stack([np.ones_like(T), T], 1) / seconds[:, None]
    (a, b), *_ = np.linalg.lstsq(design, np.ones_like(T), rcond=None)
    return float(a), float(b)


def fit_exponent(T: np.ndarray, seconds: np.ndarray) -> float:
    """The slope of log seconds over log T."""
    return float(np.polyfit(np.log(T), np.log(seconds), 1)[0])
