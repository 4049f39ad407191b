"""Elementwise recurrences: minGRU against the scan in log space of its publication and a scan of JAX; its memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import torch

from unspool.lab.bench.agreement import check_agreement, compare
from unspool.lab.bench.cases import Case, Point
from unspool.lab.bench.contest import contest
from unspool.lab.bench.contestants.contestant import Contestant, MissingError
from unspool.lab.bench.contestants.min_gru import MinGRU, jax_scan, torch_scan, unspool_kernel
from unspool.lab.bench.fresh_process import in_fresh_process
from unspool.lab.bench.report import OURS, Finding, Row
from unspool.lab.bench.report import compare as compare_rows
from unspool.lab.bench.settings import Say, Settings
from unspool.lab.bench.timing import Spread
from unspool.nn import Recurrent

POINT = Point(8, 2048, 256, 256)
LOG_SPACE = "torch, log-space scan"
#: In log space float32 loses digits: sums of thousands of logarithms come before the exponential.
LOG_SPACE_TOLERANCE = 0.02
#: How many times longer the second measurement of memory is.
LONGER = 4
PEAK = "peak of a training step"


def measure(settings: Settings, say: Say) -> Iterator[Row]:
    for point in settings.points or (POINT,):
        say(f"elementwise: minGRU {point}")
        case = f"minGRU {point}"
        yield from contest("elementwise", case, _enter(point, case, settings, say), settings.rounds)[:2]
    yield from _measure_memory(settings, say)


def _enter(point: Point, case: str, settings: Settings, say: Say) -> dict[str, Contestant]:
    """Those contestants that are asked for and installed, after they have shown that they agree."""
    torch.manual_seed(0)
    layer, x = Recurrent(MinGRU, point.I, point.H), torch.from_numpy(Case("lstm", point).x)
    contestants = {OURS: unspool_kernel(layer, x)}
    if "jax" in settings.against:
        try:
            contestants["jax"] = jax_scan(layer, x, settings.threads)
        except MissingError as missing:
            say(f"! jax takes no part: {missing}")
    check_agreement(case, contestants)
    if "torch" in settings.against:
        contestants[LOG_SPACE] = other = torch_scan(layer, x)
        ours = contestants[OURS]
        mine, theirs = ours.output(ours.infer()), other.output(other.infer())
        compare(case, "output", OURS, mine, LOG_SPACE, theirs, LOG_SPACE_TOLERANCE)
    return contestants


def _measure_memory(settings: Settings, say: Say) -> Iterator[Row]:
    """The peak of a training step with many steps, and with several times as many."""
    if not Path("/proc/self/clear_refs").exists():
        say("! memory is not measured: only Linux tells a process its peak")
        return
    B, T, I, H = (settings.points or (POINT,))[0]  # noqa: E741
    for steps in (2 * T, 2 * T * LONGER):
        point = Point(B, steps, I, H)
        say(f"elementwise: memory of minGRU {point}")
        found = in_fresh_process("memory", "minGRU", str(point), threads=settings.threads)["bytes"]
        yield Row("elementwise", PEAK, f"minGRU {point}", {OURS: Spread.of([found])}, "bytes")


def judge(rows: Iterable[Row]) -> list[Finding]:
    rows = list(rows)
    training = [row for row in rows if row.kind == "training"]
    found = []
    for name, text, aim in ((LOG_SPACE, "torch's scan in log space", 5.0), ("jax", "a scan of JAX", 3.0)):
        found += compare_rows(training, (name,), f"training, against {text}", None, aim)[1:]
    peaks = [row.values[OURS].median for row in rows if row.kind == PEAK]
    if len(peaks) == 2 and peaks[0] > 0:
        text = f"memory of {LONGER} times as many steps"
        found.append(Finding("elementwise", text, peaks[1] / peaks[0], "×", 1.1 * LONGER, False))
    return found
