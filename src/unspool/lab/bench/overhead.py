"""What a call costs when there is next to nothing to compute."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from unspool.lab.bench.cases import Point
from unspool.lab.bench.grid import measure_case
from unspool.lab.bench.report import Finding, Row, compare
from unspool.lab.bench.settings import Say, Settings

ONE_STEP = Point(1, 1, 64, 64)


def measure(settings: Settings, say: Say) -> Iterator[Row]:
    for case in settings.cases((ONE_STEP,)):
        say(f"overhead: {case}")
        yield from measure_case("overhead", case, settings, say)


def judge(rows: Iterable[Row]) -> list[Finding]:
    rows = list(rows)
    return [
        finding
        for kind, aim in (("training", 2.0), ("inference", 3.0))
        for finding in compare(
            [row for row in rows if row.kind == kind], ("torch",), f"{kind}, against torch", None, aim
        )
    ]
