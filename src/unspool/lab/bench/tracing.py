"""What it costs to see every named value, against the forward pass that training needs anyway."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import torch

from unspool.lab.bench.cases import Point
from unspool.lab.bench.contestants import modules
from unspool.lab.bench.report import OURS, Finding, Row
from unspool.lab.bench.settings import Say, Settings
from unspool.lab.bench.timing import interleave

POINT = Point(32, 100, 64, 128)
TRACED = f"{OURS}, traced"


def measure(settings: Settings, say: Say) -> Iterator[Row]:
    for case in settings.cases((POINT,)):
        say(f"trace: {case}")
        layer, x = modules.layer_of(modules.OURS, case)

        def forward(layer: Any = layer, x: torch.Tensor = x) -> Any:
            return layer(x)

        def traced(layer: Any = layer, x: torch.Tensor = x) -> Any:
            with torch.no_grad():
                return layer(x, trace=True)

        yield Row(
            "trace", "forward for training", str(case), interleave({OURS: forward, TRACED: traced}, settings.rounds)
        )


def judge(rows: Iterable[Row]) -> list[Finding]:
    ratios = {row.case: row.ratio(TRACED) for row in rows}
    if not ratios:
        return []
    where = max(ratios, key=ratios.__getitem__)
    text = "a trace, in parts of the forward pass of training: worst"
    return [Finding("trace", text, ratios[where], "×", 1.5, False, where)]
