"""Memory: the bytes that a long training step needs at its peak; and what recomputing saves and costs."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import torch

from unspool import nn as ours
from unspool.lab.bench.cases import Point
from unspool.lab.bench.fresh import recomputing
from unspool.lab.bench.fresh_process import in_fresh_process
from unspool.lab.bench.report import OURS, Finding, Row
from unspool.lab.bench.settings import Say, Settings
from unspool.lab.bench.timing import Spread, interleave

POINT = Point(32, 2000, 64, 128)
RECOMPUTE = f"{OURS}, recompute"


def measure(settings: Settings, say: Say) -> Iterator[Row]:
    if not Path("/proc/self/clear_refs").exists():
        say("! memory is not measured: only Linux tells a process its peak")
        return
    known = "recompute" in inspect.signature(ours.Recurrent).parameters
    names = [OURS, *([RECOMPUTE] if known else []), *(["torch"] if "torch" in settings.against else [])]
    for point in settings.points or (POINT,):
        say(f"memory: LSTM {point}")
        values = {name: Spread.of(_bytes(name, point, settings)) for name in names}
        yield Row("memory", "peak of a training step", f"LSTM {point}", values, "bytes")
        if known:
            yield _time(point, settings)


def _bytes(name: str, point: Point, settings: Settings) -> list[float]:
    rounds = min(settings.rounds, 3)
    return [in_fresh_process("memory", name, str(point), threads=settings.threads)["bytes"] for _ in range(rounds)]


def _time(point: Point, settings: Settings) -> Row:
    x = torch.randn(point.T, point.B, point.I)
    layers = {OURS: ours.Recurrent("lstm", point.I, point.H), RECOMPUTE: recomputing(point.I, point.H)}

    def train(layer: Any) -> None:
        layer.zero_grad()
        layer(x)[0].sum().backward()

    calls = {name: partial(train, layer) for name, layer in layers.items()}
    return Row("memory", "training", f"LSTM {point}", interleave(calls, settings.rounds))


def judge(rows: Iterable[Row]) -> list[Finding]:
    found = []
    for row in rows:
        if row.unit == "bytes" and "torch" in row.values:
            for name, aim in ((OURS, 1.0), (RECOMPUTE, 0.25)):
                if name in row.values:
                    text = f"peak of {name}, in parts of torch's"
                    found.append(Finding("memory", text, row.ratio(name, "torch"), "×", aim, False, row.case))
        elif row.unit == "s":
            text = "time with recompute, in parts of that without"
            found.append(Finding("memory", text, row.ratio(RECOMPUTE), "×", 1.45, False, row.case))
    return found
